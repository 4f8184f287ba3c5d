# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages of others that are not in order stop nothing, on a played Ubuntu whose apt is genuine."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.debs import Deb, fragile
from tests.fakes.played.ubuntu import half_configured as scenes
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.half_configured import HEADERS, IMAGE, add_chrome, state, upgrade
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, K86, NEW, NEWER, full
from tests.runner.tiers import long_but_first

CHROME = "google-chrome-stable"
FONTS = Deb("fonts-liberation", "1", component="main", suite="noble")
FIX = r"run apt-get --fix-broken install on the node"


@pytest.fixture
def unbuilt(ubuntu: Machines) -> Ubuntu:
    """Return a node whose driver DKMS can't build for a kernel that a night has brought."""
    return upgrade(ubuntu.driven(scenes.BUILT, K85, version="580"), scenes.UNBUILT)


@pytest.fixture
def full_boot(ubuntu: Machines) -> Ubuntu:
    """Return a node with the driver and a kernel that is half configured, as /boot is full."""
    return upgrade(ubuntu.driven(archive.A, K85, version="580"), scenes.BOOT_FULL)


@pytest.fixture
def fresh_full_boot(ubuntu: Machines) -> Ubuntu:
    """Return a node without a driver and with such a kernel."""
    return upgrade(ubuntu(archive.A, K85), scenes.BOOT_FULL)


def check_quiet(node: Ubuntu, name: str, command: str, **options: object) -> None:
    """See a warning with a package and the command, and nothing to do, in check mode and in a run."""
    for check_mode in (True, False):
        plan = planned(node, check_mode=check_mode, **options)
        assert plan.steps == ()
        check_warning(plan, name, command)


def check_warning(plan: Plan, name: str, command: str) -> None:
    assert [text for text in plan.warnings if f"{name} is " in text and f"run {command} on" in text]


def check_absent(node: Ubuntu) -> None:
    """Take away what the role has added, whatever state the rest is in; nothing is left for a second run."""
    plan = planned(node, state="absent")
    assert "repair" not in [step.action for step in plan.steps]
    assert converge(node, state="absent").steps == ()
    assert not [name for name in node.installed() if "nvidia" in name]
    assert not node.exists(RECORD)
    assert not node.held()


def test_half_configured_headers_are_a_warning_where_nothing_changes(unbuilt: Ubuntu) -> None:
    check_quiet(unbuilt, HEADERS, "dpkg --configure -a", version="580")
    warnings = planned(unbuilt, version="580").warnings
    assert not [text for text in warnings if f"install {HEADERS}" in text]
    assert [text for text in warnings if f"dkms autoinstall -k {K86}" in text]
    assert state(unbuilt, HEADERS) == "iF "
    check_absent(unbuilt)
    assert state(unbuilt, HEADERS) == "ii "


@pytest.mark.parametrize(
    "options", long_but_first([{"version": "580", "update": True}, {"version": NEWER}])
)
def test_driver_that_builds_cures_half_configured_headers(
    unbuilt: Ubuntu, options: dict[str, object]
) -> None:
    assert "repair" not in [step.action for step in planned(unbuilt, **options).steps]
    plan = converge(unbuilt, **options)
    assert plan.steps == ()
    assert not [text for text in plan.warnings if " is half configured" in text]
    assert state(unbuilt, HEADERS) == "ii "
    assert unbuilt.installed()["libnvidia-compute-580-server"] == full(NEWER)
    assert planned(unbuilt, check_mode=False, **options).steps == ()
    check_absent(unbuilt)


def test_half_configured_kernel_does_not_stop_a_first_installation(fresh_full_boot: Ubuntu) -> None:
    node = fresh_full_boot
    assert "repair" not in [step.action for step in planned(node, version="580").steps]
    plan = converge(node, version="580")
    assert plan.steps == ()
    check_warning(plan, IMAGE, "dpkg --configure -a")
    assert (node.works(), state(node, IMAGE)) == (True, "iF ")
    check_quiet(node, IMAGE, "dpkg --configure -a", version="580")
    check_absent(node)
    assert state(node, IMAGE) == "iF "


def test_half_configured_kernel_does_not_stop_an_update(full_boot: Ubuntu) -> None:
    check_quiet(full_boot, IMAGE, "dpkg --configure -a", version="580")
    full_boot.archive(archive.G2)
    assert planned(full_boot, version="580", update=True).steps
    plan = converge(full_boot, version="580", update=True)
    assert plan.steps == ()
    check_warning(plan, IMAGE, "dpkg --configure -a")
    assert full_boot.installed()["libnvidia-compute-580-server"] == full(NEWER)
    assert full_boot.held()
    check_absent(full_boot)


def test_half_configured_kernel_does_not_stop_the_removal(full_boot: Ubuntu) -> None:
    check_absent(full_boot)
    assert state(full_boot, IMAGE) == "iF "


@pytest.mark.parametrize("kind", long_but_first(["unpacked", "installed"]))
def test_unmet_dependencies_of_others_need_apts_own_step_where_something_changes(
    ubuntu: Machines, kind: str
) -> None:
    node = add_chrome(ubuntu.driven(archive.A, K85, version="580"), state=kind)
    for check_mode in (True, False):
        plan = planned(node, check_mode=check_mode, version="580")
        assert plan.steps == ()
        if kind == "unpacked":
            check_warning(plan, CHROME, "apt-get --fix-broken install")
    node.archive(archive.G2)
    before = node.installed()
    for run in (planned, converge):
        with pytest.raises(
            NodeError, match=rf"(?s)refuses every.*{CHROME}.*fonts-liberation.*{FIX}"
        ):
            run(node, version="580", update=True)
    assert node.installed() == before
    node.apt("--fix-broken", "install")
    assert converge(node, version="580", update=True).steps == ()


def test_unmet_dependencies_of_others_do_not_stop_the_removal(ubuntu: Machines) -> None:
    node = add_chrome(ubuntu.driven(archive.A, K85, version="580"))
    check_absent(node)
    assert state(node, CHROME) == "iU "


def test_package_of_others_that_needs_the_driver_is_kept_with_it(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85, version="580")
    add_chrome(node, needs="fonts-liberation, libnvidia-compute-580-server")
    with pytest.raises(
        NodeError, match=rf"libnvidia-compute-580-server.* cannot be removed: {CHROME}"
    ):
        converge(node, state="absent")
    assert node.works()


def test_unmet_dependencies_that_can_be_had_are_repaired_for_a_change_alone(
    ubuntu: Machines,
) -> None:
    node = add_chrome(ubuntu.driven((*archive.A, FONTS), K85, version="580"))
    check_quiet(node, CHROME, "apt-get --fix-broken install", version="580")
    assert state(node, CHROME) == "iU "
    node.archive((*archive.G2, FONTS))
    actions = [step.action for step in planned(node, version="580", update=True).steps]
    assert actions[0] == "repair"
    assert "install" in actions
    assert converge(node, version="580", update=True).steps == ()
    assert state(node, CHROME) == "ii "


def test_torn_package_of_others_does_not_stop_the_removal(ubuntu: Machines) -> None:
    node = add_chrome(ubuntu.driven(archive.A, K85, version="580"))
    node.torn(CHROME, "install reinstreq half-installed")
    check_quiet(node, CHROME, f"apt-get install --reinstall {CHROME}", version="580")
    for run in (planned, converge):
        with pytest.raises(NodeError, match=rf"{CHROME} needs to be reinstalled"):
            run(node, version="580", kernel_modules="proprietary")
    check_absent(node)


@pytest.mark.parametrize(
    "torn",
    long_but_first(["libnvidia-cfg1", "nvidia-kernel-common", "nvidia-utils", "libnvidia-compute"]),
)
def test_killed_installation_is_taken_back_at_once(ubuntu: Machines, torn: str) -> None:
    node = ubuntu([*map(fragile, archive.A)], K85)
    before = node.installed()
    node.put("torn", f"{torn}-580-server")
    with pytest.raises(NodeError, match="dpkg"):
        converge(node, version="580")
    check_absent(node)
    assert node.installed() == before


def test_journal_of_a_killed_dpkg_does_not_stop_the_removal(full_boot: Ubuntu) -> None:
    text = (full_boot.root / "var/lib/dpkg/status").read_text()
    (entry,) = (
        one for one in text.split("\n\n") if one.startswith("Package: nvidia-utils-580-server\n")
    )
    full_boot.put("var/lib/dpkg/updates/0001", f"{entry}\n")
    check_absent(full_boot)


def test_failed_configuration_of_our_own_is_an_error_beside_others(fresh_full_boot: Ubuntu) -> None:
    node = fresh_full_boot
    node.archive([*map(fragile, scenes.BOOT_FULL)])
    node.put("fails", f"{full(NEW)} nvidia-utils-580-server")
    with pytest.raises(NodeError, match="nvidia-utils-580-server"):
        converge(node, version="580")
    node.remove("/fails")
    assert converge(node, version="580").steps == ()
    check_absent(node)


def test_component_that_is_dropped_goes_beside_a_half_configured_kernel(
    full_boot: Ubuntu,
) -> None:
    parts = {"components": ["compute", "video"]}
    assert converge(full_boot, version="580", **parts).steps == ()
    assert "libnvidia-decode-580-server" in full_boot.installed()
    assert planned(full_boot, version="580").steps
    assert converge(full_boot, version="580").steps == ()
    assert "libnvidia-decode-580-server" not in full_boot.installed()
    check_absent(full_boot)


def test_adopted_driver_is_exchanged_and_given_back_beside_a_half_configured_kernel(
    ubuntu: Machines,
) -> None:
    offered = (
        *archive.A,
        *archive.driver("570.195.03"),
        *archive.prebuilt(K85, "570.195.03", "+1"),
    )
    names = ("nvidia-headless-no-dkms-570-server-open", "nvidia-utils-570-server")
    node = ubuntu.by_hand(offered, K85, *names)
    broken = [
        *offered,
        *(one for one in scenes.BOOT_FULL if "6.8.0-86" in one.name or "linux-" in one.name),
    ]
    upgrade(node, tuple(dict.fromkeys(one for one in broken if one not in archive.kernel(K85)[2:])))
    before = node.installed()
    assert planned(node, version="580", adopt=True).steps
    assert converge(node, version="580", adopt=True).steps == ()
    assert "libnvidia-compute-570-server" not in node.installed()
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert node.installed() == before
    assert state(node, IMAGE) == "iF "


def test_failed_update_is_rolled_back_beside_a_half_configured_kernel(full_boot: Ubuntu) -> None:
    newer = (*archive.driver(NEWER), *archive.prebuilt(K85, NEWER, "+3"))
    full_boot.archive([*archive.A, *map(fragile, newer)])
    full_boot.put("fails", f"{full(NEWER)} nvidia-utils-580-server")
    before = full_boot.installed(), full_boot.held()
    with pytest.raises(NodeError, match="so the previous ones were restored"):
        converge(full_boot, version="580", update=True)
    assert (full_boot.installed(), full_boot.held()) == before
    check_quiet(full_boot, IMAGE, "dpkg --configure -a", version="580")
    check_absent(full_boot)
