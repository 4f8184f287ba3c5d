# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that somebody else has installed is taken over with its packages, and given back as it was."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import SECURE_BOOT

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.debs import Deb
from tests.fakes.played.rooted import B200
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines
from tests.fakes.played.ubuntu.ubuntu_archive import K85, K86, NEW, NEWER, OLD

TRACKING = "linux-modules-nvidia-580-open-generic"
DESKTOP = ("nvidia-driver-580-open", TRACKING, "libnvidia-gl-580")


def desktop(*versions: str, respin: str = "+1") -> tuple[Deb, ...]:
    """Return the packages of a desktop's branches; the first version has the kernel's modules."""
    found: list[Deb] = []
    for version in versions:
        found += archive.driver(version, "")
    parts = archive.prebuilt(K85, versions[0], respin, ending="")
    return (*found, *parts, *archive.tracking(K85, versions[0], respin, ending=""))


A = (*archive.A, *desktop(OLD))
BOTH = (*A, *desktop("570.195.03"))


def test_desktop_is_taken_over_and_given_back(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(A, K85, *DESKTOP)
    before, marks = node.installed(), node.automatic()
    plan = planned(node, adopt=True, persistence=False)
    (adopt, hold, *nodes) = plan.steps
    assert [one.action for one in nodes] == ["device_nodes", "gpus"]
    assert "adopted" not in plan.before
    assert "nvidia-driver-580-open" in plan.after["adopted"]
    assert adopt.action == "adopt"
    assert f"nvidia-driver-580-open ({archive.full(OLD)})" in adopt.summary
    assert "nvidia-driver-580-open" in hold.summary
    assert converge(node, adopt=True).steps == ()
    assert node.installed() == before
    assert {"nvidia-driver-580-open", "libnvidia-gl-580", TRACKING} <= node.held()
    assert converge(node).steps == ()  # what was taken over once stays so
    converge(node, state="absent")
    assert (node.installed(), node.held(), node.automatic()) == (before, set(), marks)
    assert converge(node, state="absent").steps == ()
    assert node.works()


def test_desktop_moves_within_its_branch_and_back(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(A, K85, *DESKTOP)
    before, marks = node.installed(), node.automatic()
    node.archive((*archive.A, *desktop(OLD), *desktop(NEWER, respin="+3")))
    assert converge(node, adopt=True, version=NEWER).steps == ()
    assert node.installed()["nvidia-driver-580-open"] == archive.full(NEWER)
    assert node.installed()["libnvidia-gl-580"] == archive.full(NEWER)
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)
    left = converge(node, state="absent")
    assert f"version {NEWER} of the driver is loaded" in left.reboot_required[0]
    assert (node.installed(), node.held(), node.automatic()) == (before, set(), marks)
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)


def test_driver_that_is_not_offered_any_more_stays_as_it_is(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(A, K85, *DESKTOP)
    node.archive((*archive.A, *desktop(NEWER, respin="+3")))
    assert converge(node, adopt=True, version=NEWER).steps == ()
    there = node.installed()
    (_hold, remove) = planned(node, state="absent").steps
    assert re.search(
        rf"leave the driver .* nvidia-driver-580-open {OLD}.* can be had", remove.summary
    )
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (there, set())
    node.boot()
    assert node.works()


def test_desktop_changes_its_branch_with_its_metapackage_and_back(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(BOTH, K85, *(one.replace("580", "570") for one in DESKTOP))
    before = node.installed()
    assert converge(node, adopt=True, version="580").steps == ()
    there = node.installed()
    assert {"nvidia-driver-580-open", "libnvidia-gl-580"} <= set(there)
    assert not {"nvidia-driver-570-open", "libnvidia-gl-570", "libnvidia-compute-570"} & set(there)
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert converge(node, adopt=True, version="580").steps == ()
    converge(node, state="absent")
    assert node.installed() == before
    node.boot()
    assert (node.loaded(), node.works()) == ("570.195.03 open", True)


def test_other_type_of_kernel_modules_comes_with_its_metapackage_and_goes(ubuntu: Machines) -> None:
    names = ("nvidia-driver-580", "linux-modules-nvidia-580-generic", "libnvidia-gl-580")
    node = ubuntu.by_hand(A, K85, *names, gpu=B200)  # which runs with the open modules only
    before = node.installed()
    plan = planned(node, adopt=True)
    assert "remove linux-modules-nvidia-580-6.8.0-85-generic" in plan.steps[1].summary
    assert converge(node, adopt=True).steps == ()
    assert "nvidia-driver-580-open" in node.installed()
    assert "nvidia-driver-580" not in node.installed()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    converge(node, state="absent")
    assert node.installed() == before


def test_headless_driver_with_tracking_package_is_taken_over_with_holds(ubuntu: Machines) -> None:
    tracking = "linux-modules-nvidia-580-server-open-generic"
    names = ("nvidia-headless-no-dkms-580-server-open", tracking, "nvidia-utils-580-server")
    node = ubuntu.by_hand(archive.A, K85, *names)
    before = node.installed()
    assert converge(node, adopt=True).steps == ()
    assert {"nvidia-headless-no-dkms-580-server-open", tracking} <= node.held()
    node.archive(archive.B)
    upgrade = node.run(["apt-get", "--simulate", "dist-upgrade"]).out
    assert "nvidia" not in "".join(re.findall(r"^Remv .*", upgrade, flags=re.M))
    node.unattended()
    assert node.works()
    assert node.boot() == K86
    assert converge(node, adopt=True).steps == ()
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    assert node.installed()[tracking] == archive.package_version(K86)
    assert set(before) <= set(node.installed())


def test_adoption_that_cannot_be_configured_is_rolled_back(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(BOTH, K85, *(one.replace("580", "570") for one in DESKTOP))
    before = node.installed()
    node.archive(with_script(BOTH, "echo it must >&2; exit 7\n"))
    with pytest.raises(NodeError) as caught:
        converge(node, adopt=True, version="580")
    assert caught.value.details["rolled_back"] is True
    assert (node.installed(), node.held()) == (before, set())
    assert not node.exists("/var/lib/gpu-node/nvidia_driver.json")
    with pytest.raises(NodeError, match="adopt: true"):
        planned(node, version="580")


def test_adoption_that_was_killed_is_finished_by_the_next_run(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(BOTH, K85, *(one.replace("580", "570") for one in DESKTOP))
    before = node.installed()
    kill = 'test -f "$DPKG_ROOT/run/killed" || { touch "$DPKG_ROOT/run/killed"; kill -9 $PPID; }\n'
    node.archive(with_script(BOTH, kill))
    with pytest.raises(NodeError):
        converge(node, adopt=True, version="580")
    assert node.exists("/run/killed")
    assert converge(node, adopt=True, version="580").steps == ()
    assert {"nvidia-driver-580-open", "libnvidia-gl-580"} <= set(node.installed()) & node.held()
    node.boot()
    assert node.works()
    converge(node, state="absent")
    assert node.installed() == before


def with_script(packages: Iterable[Deb], script: str) -> list[Deb]:
    """Return the packages, of which nvidia-utils-580 runs a script when it is configured."""
    scripts = (("postinst", script),)
    return [
        dataclasses.replace(one, scripts=scripts) if one.name == "nvidia-utils-580" else one
        for one in packages
    ]


def test_node_of_our_own_has_nothing_to_take_over(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    before = node.installed()
    assert "adopt" not in [step.action for step in planned(node, adopt=True).steps]
    assert converge(node, adopt=True, hold=False).steps == ()
    node.archive(archive.B)
    node.unattended()
    assert node.boot() == K86
    # Though upgrades have brought modules of the new kernel.
    steps = planned(node, adopt=True, hold=False).steps
    assert "adopt" not in [step.action for step in steps]
    assert converge(node, adopt=True, hold=False).steps == ()
    converge(node, state="absent")
    assert not {name for name in node.installed() if "nvidia" in name}
    assert set(before) <= set(node.installed())


def test_tracking_package_is_taken_over_without_the_kernels_metapackages(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(A, K85, *DESKTOP)
    # As kernels are often kept from moving.
    node.apt("purge", "linux-generic", "linux-image-generic")
    node.put(SECURE_BOOT[1:], "\x06\0\0\0\x01")
    before, marks = node.installed(), node.automatic()
    assert [step.action for step in planned(node, adopt=True).steps][:2] == ["adopt", "hold"]
    assert converge(node, adopt=True).steps == ()
    assert (node.installed(), TRACKING in node.held()) == (before, True)
    converge(node, state="absent")
    assert (node.installed(), node.held(), node.automatic()) == (before, set(), marks)


def test_what_has_no_counterpart_goes_and_is_named(ubuntu: Machines) -> None:
    house = Deb(
        "nvidia-house-580",
        archive.full(OLD),
        (("Depends", f"nvidia-driver-580-open (= {archive.full(OLD)})"),),
        "nvidia-graphics-drivers-580",
    )
    node = ubuntu.by_hand((*A, house), K85, *DESKTOP, "nvidia-house-580")
    before = node.installed()
    node.archive((*A, house, *desktop(NEWER, respin="+3")))
    install = planned(node, adopt=True, version=NEWER).steps[1]
    assert "remove nvidia-house-580" in install.summary
    assert converge(node, adopt=True, version=NEWER).steps == ()
    assert "nvidia-house-580" not in node.installed()
    converge(node, state="absent")
    assert node.installed() == before


def test_what_is_not_the_drivers_does_not_go(ubuntu: Machines) -> None:
    house = Deb("house", "1", (("Depends", f"nvidia-driver-580-open (= {archive.full(OLD)})"),))
    node = ubuntu.by_hand((*A, house), K85, *DESKTOP, "house")
    node.archive((*A, house, *desktop(NEWER, respin="+3")))
    with pytest.raises(NodeError, match=r"would remove house|house : Depends"):
        planned(node, adopt=True, version=NEWER)
