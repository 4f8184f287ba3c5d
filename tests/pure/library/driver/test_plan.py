# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps to the driver and back, from wherever a node is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.apt import render, upstream
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import (
    Package,
    Policy,
    State,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.families.rhel import RHEL
from ansible_collections.gpu.node.plugins.module_utils._driver.families.suse import SUSE
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import (
    SigningKey,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    Names,
    Offer,
    Requirements,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record
from ansible_collections.gpu.node.plugins.module_utils._node.users.users import User

from tests.fakes.packages.driver_nodes import (
    COMPONENTS,
    DEBIAN,
    KERNEL,
    MAIN,
    NEW,
    OFFERED,
    OLD,
    RELEVANT,
    WANTED,
    actions,
    changed,
    converged,
    fresh,
    node,
    package,
    planned,
)

ALL = ["install", "hold", "load", "persistence"]
OPEN, PROPRIETARY = KERNEL["open"], KERNEL["proprietary"]


# --- present ---


def test_node_whose_sources_have_the_driver() -> None:
    found = planned(node())
    assert [step.action for step in found.steps] == ALL
    assert found.steps[0].params["packages"] == dict.fromkeys(WANTED, NEW) | {
        "nvidia-persistenced": NEW
    }
    assert found.after["packages"] == dict.fromkeys(sorted(WANTED), NEW)
    assert found.after["held"] == sorted(WANTED)
    assert found.after["loaded"] == ["550.163.01", "open"]
    assert found.after["persistence"] is True
    assert not found.more
    assert not found.warnings


def test_converged_node_needs_nothing() -> None:
    assert planned(converged()).steps == ()
    assert planned(converged()).reboot_required == ()


def test_fresh_node_gets_sources_first() -> None:
    found = planned(fresh())
    assert [step.action for step in found.steps] == ["sources", "refresh"]
    assert found.more
    assert found.steps[0].params["text"] == render(
        [dataclasses.replace(MAIN, components=COMPONENTS)]
    )


def test_check_mode_on_a_fresh_node_tells_all_of_it() -> None:
    found = planned(fresh(), check_mode=True)
    assert [step.action for step in found.steps] == ["sources", "refresh", *ALL]
    assert set(found.after["packages"].values()) == {"the newest that the sources offer"}


def test_check_mode_says_the_branch_that_was_asked_for() -> None:
    found = planned(fresh(), check_mode=True, version="550")
    assert set(found.after["packages"].values()) == {"the newest 550 that the sources offer"}
    (installed,) = [step.summary for step in found.steps if step.action == "install"]
    assert "(the newest 550 that the sources offer)" in installed


def test_lists_are_fetched_where_the_sources_are_there_already() -> None:
    assert actions(node(policies={})) == ["refresh"]
    assert actions(fresh(sources=()), manage_sources=False) == ["refresh"]


def test_node_whose_sources_may_not_be_changed() -> None:
    with pytest.raises(NodeError, match="set manage_sources to true"):
        actions(fresh(), manage_sources=False)


def test_node_without_any_source_of_its_release() -> None:
    with pytest.raises(NodeError, match="no source of Debian trixie main"):
        actions(fresh(sources=()))


def test_mirror_without_the_driver_is_reported_with_what_apt_said() -> None:
    own = render([dataclasses.replace(MAIN, components=COMPONENTS)])
    with pytest.raises(NodeError, match=r"have no .*nvidia-smi.*W: no route"):
        actions(fresh(own_sources=own, refreshed=True, refresh_note="W: no route"))


def test_own_sources_follow_the_nodes_mirror() -> None:
    stale = node(sources=(MAIN,), own_sources="Types: deb\nURIs: http://old/debian\n")
    assert actions(stale) == ["sources", "refresh"]
    assert actions(stale, manage_sources=False) == ALL


@pytest.mark.parametrize(
    "one",
    [
        package(state=State.UNPACKED),
        package(state=State.HALF_CONFIGURED),
        package(state=State.HALF_INSTALLED, torn=True),
        package(state=State.TRIGGERS_PENDING),
    ],
)
def test_interrupted_installation_is_finished_first(one: Package) -> None:
    broken = node(packages={"libcuda1": one})
    assert actions(broken) == ["repair"]
    assert actions(broken, check_mode=True)[0] == "repair"


def test_interrupted_dpkg_is_mended_only_where_it_concerns_us() -> None:
    other = {"vim": Package("9", "vim", State.UNPACKED)}
    assert "repair" not in actions(node(packages=other))
    assert actions(node(interrupted=True)) == ["repair"]
    have = converged()
    assert actions(changed(have, packages={**have.software.packages, **other})) == []
    dependency = {"dkms": Package("3", "dkms", State.UNPACKED)}
    record = dataclasses.replace(
        have.history.record, packages=have.history.record.packages | {"dkms"}
    )
    ours = changed(have, packages={**have.software.packages, **dependency}, record=record)
    assert actions(ours) == ["repair"]


def test_broken_version_is_replaced_by_the_one_asked_for_without_a_repair() -> None:
    have = converged()
    kernel = KERNEL["open"]
    broken = {
        **have.software.packages,
        kernel: package(state=State.HALF_CONFIGURED, held=True),
        "dkms": Package("3", "dkms", State.UNPACKED),
    }
    stuck = changed(have, packages=broken)
    assert actions(stuck) == ["repair"]
    assert actions(stuck, version=OLD)[0] == "install"
    torn = changed(stuck, interrupted=True)
    assert actions(torn, version=OLD) == ["repair"]
    other = {**broken, "dkms": Package("3", "dkms", State.HALF_CONFIGURED)}
    assert actions(changed(have, packages=other), version=OLD)[0] == "install"
    ours = dataclasses.replace(
        have.history.record, packages=have.history.record.packages | {"dkms"}
    )
    assert actions(changed(have, packages=other, record=ours), version=OLD) == ["repair"]


def test_installed_version_is_kept_unless_another_is_asked_for() -> None:
    newer = {name: Policy("560.1-1", ("560.1-1", NEW)) for name in RELEVANT}
    assert actions(converged(policies=newer)) == []
    assert actions(converged(policies=newer), version="550.163.01") == []
    assert "install" in actions(converged(policies=newer), version="560")


def test_downgrade_holds_again_and_asks_for_a_reboot() -> None:
    found = planned(converged(), version="535")
    assert [step.action for step in found.steps] == ["install", "hold"]
    assert found.steps[0].needs == ("reboot", "idle_gpu")
    assert found.steps[0].params["packages"] == dict.fromkeys(WANTED, OLD)
    assert found.steps[1].params == {"hold": sorted(WANTED), "release": []}
    assert found.reboot_required == (
        "version 550.163.01 of the driver is loaded, 535.261.03 belongs to the packages",
    )


def test_change_of_module_type_is_one_transaction() -> None:
    found = planned(converged(), kernel_modules="proprietary")
    (install, hold) = found.steps
    assert install.params["packages"] == {PROPRIETARY: NEW}
    assert install.params["remove"] == [OPEN]
    assert hold.params == {"hold": [PROPRIETARY], "release": [OPEN]}
    assert "the open kernel modules are loaded" in found.reboot_required[0]
    assert OPEN not in found.after["packages"]


def test_package_that_somebody_else_holds_is_refused_by_name() -> None:
    held = node(packages={"libcuda1": package(OLD, held=True)}, policies=OFFERED)
    with pytest.raises(NodeError, match=r"^libcuda1 must change, .* 535.*apt-mark unhold libcuda1"):
        actions(held, version="550")
    with pytest.raises(NodeError, match=r"^libcuda1 must change.*installed: libcuda1 \(none\)"):
        actions(node(packages={"libcuda1": package("", State.NOT_INSTALLED, held=True)}))


def test_package_that_somebody_else_holds_at_the_right_version_keeps_that_hold() -> None:
    held = node(packages={"libcuda1": package(NEW, held=True)})
    found = planned(held)
    hold = next(step for step in found.steps if step.action == "hold")
    assert "libcuda1" not in hold.params["hold"]
    assert "libcuda1" in found.after["held"]


def test_holds_are_released_where_they_are_not_wanted_and_are_ours() -> None:
    found = planned(converged(), hold=False)
    assert [step.params for step in found.steps] == [{"hold": [], "release": sorted(WANTED)}]
    assert found.after["held"] == []
    assert actions(converged(record=Record()), hold=False) == []


KEY = "/var/lib/dkms/mok.pub"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("missing", f"no key to sign modules with: {KEY}.*dkms generate_mok.*--import {KEY}"),
        ("refused", f"{KEY}, is not enrolled.*mokutil --import {KEY}, reboot"),
        ("pending", f"{KEY}, waits to be confirmed.*Enroll MOK"),
        ("blocked", f"blocks the key.*{KEY}"),
        ("unknown", f"does not report whether {KEY}.*install mokutil"),
    ],
)
def test_secure_boot_is_told_before(state: str, words: str) -> None:
    key = SigningKey(KEY, state)
    with pytest.raises(NodeError, match=f"Secure Boot is on: .*{words}"):
        actions(fresh(signing_key=key))
    assert actions(node(signing_key=key), secure_boot="ignore") == ALL
    assert actions(converged(signing_key=key)) == []


def test_key_that_is_enrolled_is_enough_for_secure_boot() -> None:
    assert actions(node(signing_key=SigningKey(KEY, "enrolled"))) == ALL


def test_driver_from_nvidias_installer_is_not_mixed_with_packages() -> None:
    with pytest.raises(NodeError, match="nvidia-uninstall"):
        actions(node(nvidia_installer=True))
    assert actions(converged(nvidia_installer=True)) == []


def test_nouveau_is_not_fought() -> None:
    found = planned(node(nouveau=True))
    assert [step.action for step in found.steps] == ["install", "hold", "persistence"]
    assert found.steps[-1].params["start"] is False
    assert found.reboot_required == ("the nouveau driver holds the GPUs",)


@pytest.mark.parametrize(
    ("loaded", "words"),
    [
        (("535.261.03", "open"), "535.261.03 of the driver is loaded"),
        (("550.163.01", "proprietary"), "proprietary kernel modules are loaded"),
    ],
)
def test_loaded_driver_of_another_kind_asks_for_a_reboot(
    loaded: tuple[str, str], words: str
) -> None:
    found = planned(converged(driver=loaded))
    assert found.steps == ()
    assert words in found.reboot_required[0]


def test_idle_driver_is_reloaded_where_that_is_asked_for() -> None:
    found = planned(converged(), version="535", reload="when_idle")
    assert [step.action for step in found.steps] == ["install", "hold", "reload"]
    assert found.steps[0].needs == ("idle_gpu",)
    assert found.steps[-1].needs == ("idle_gpu",)
    assert found.reboot_required == ()
    assert found.after["loaded"] == ["535.261.03", "open"]
    assert actions(converged(), reload="when_idle") == []
    assert actions(node(), reload="when_idle") == ALL


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"users": (User(7, "python"), User(9, "x"))}, "have the GPUs open: 7 (python), 9 (x))"),
        ({"reload_note": "module nvidia is in use"}, "(not reloaded: module nvidia is in use)"),
        ({"nouveau": True}, "the nouveau driver holds the GPUs"),
    ],
)
def test_driver_that_cannot_be_reloaded_asks_for_a_reboot(
    changes: dict[str, Any], words: str
) -> None:
    observed = converged(driver=("535.261.03", "open"), **changes)
    found = planned(observed, reload="when_idle")
    assert found.steps == ()
    assert words in found.reboot_required[0]


def test_open_modules_without_their_firmware_are_told() -> None:
    assert planned(converged()).warnings == ()
    (warning,) = planned(converged(firmware=("535.261.03",))).warnings
    assert "no GSP firmware of version 550.163.01" in warning
    assert planned(converged(firmware=(), driver=(upstream(NEW), "proprietary"))).warnings == ()


@pytest.mark.parametrize("names", [RHEL.names, SUSE.names])
def test_repositories_without_the_driver_are_told(
    names: Callable[[Offer, Requirements], Names],
) -> None:
    family = names(Offer(), Requirements(kernel="5.14.0-570.el9.x86_64"))
    bare = node(names=family, policies={}, refreshed=True, sources=())
    with pytest.raises(NodeError, match=r"sources have no .*nvidia.*no enabled repository"):
        actions(bare, components=family.user_space)


def test_node_without_a_gpu_is_prepared_only() -> None:
    found = planned(node(gpus=()))
    assert [step.action for step in found.steps] == ["install", "hold", "persistence"]
    assert found.steps[-1].params["start"] is False
    assert "no NVIDIA GPU" in found.warnings[0]


def test_nothing_is_loaded_or_started_where_that_is_not_wanted() -> None:
    assert actions(node(), load=False, persistence=False, hold=False) == ["install"]
    found = planned(node(), load=False)
    assert found.steps[-1].summary == "enable nvidia-persistenced.service"


def test_missing_headers_are_installed_or_told() -> None:
    with pytest.raises(NodeError, match=r"as linux-headers-6\.12\.1.*load: false"):
        planned(node(headers=False))
    container = planned(node(headers=False, own_kernel=False))
    assert "linux-headers-6.12.1: DKMS can't" in container.warnings[0]
    offered = {**OFFERED, "linux-headers-6.12.1": Policy("6.12.1-1", ("6.12.1-1",))}
    found = planned(node(headers=False, policies=offered))
    assert found.steps[0].params["packages"]["linux-headers-6.12.1"] is None
    assert found.warnings == ()
    loaded = converged(headers=False, policies=offered)
    assert actions(loaded) == []


def test_newer_proprietary_driver_is_mentioned() -> None:
    policies = {**OFFERED, PROPRIETARY: Policy("560.1-1", ("560.1-1", NEW))}
    assert "proprietary ones in 560.1" in planned(node(policies=policies)).warnings[0]
    blackwell = node(policies=policies, gpus=(("0000:18:00.0", "blackwell"),))
    assert planned(blackwell).warnings == ()


def test_unknown_version_is_told_once_the_lists_are_new() -> None:
    found = planned(node(), version="999")
    assert [step.action for step in found.steps] == ["refresh"]
    assert found.more
    for observed, check_mode in ((node(refreshed=True), False), (node(), True)):
        with pytest.raises(InputError, match=r"999.*550\.163\.01"):
            actions(observed, version="999", check_mode=check_mode)


OTHERS = [
    {"distribution": "rhel", "codename": "", "title": "Red Hat Enterprise Linux 9"},
    {"codename": "buster", "title": "Debian buster"},
]


@pytest.mark.parametrize("changes", OTHERS)
def test_other_systems_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(NodeError, match=f"'{changes['title']}' is not supported"):
        actions(node(**changes))
    with pytest.raises(NodeError, match="is not supported"):
        actions(converged(**changes), state="absent")


@pytest.mark.parametrize("changes", OTHERS)
def test_nothing_is_taken_back_where_nothing_was_added(changes: dict[str, str]) -> None:
    assert actions(node(**changes), state="absent") == []


def test_version_that_only_more_components_can_offer() -> None:
    have = converged(policies={}, sources=(MAIN,))
    assert actions(have) == []
    assert actions(have, version="535") == ["sources", "refresh"]
    assert actions(have, version="535", check_mode=True) == ["sources", "refresh"]
    with pytest.raises(InputError, match="535"):
        actions(changed(have, refreshed=True), version="535", manage_sources=False)


# --- absent ---


def test_kernel_can_be_held_with_apt_only() -> None:
    one = node(names=DEBIAN, traits=RHEL.traits)
    with pytest.raises(InputError, match=r"hold_kernel: True .*apt"):
        planned(one, hold_kernel=True)
