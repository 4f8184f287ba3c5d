# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver on a played Rocky 9 whose dnf is genuine: headers, refusals, and what others have."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import capability, converge, planned
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import KMODS, VERSION, kernel
from tests.fakes.played.rhel.rhel_systems import EL9
from tests.fakes.played.rpms import Rpm
from tests.machine.library.driver.played.rhel.test_rhel_streams import enabled

KERNEL = EL9.kernel
LIBRARIES = "nvidia-driver-cuda-libs"


@pytest.fixture
def done(rhel: Machines) -> Rhel:
    """Return a machine with the driver."""
    return rhel.driven()


@pytest.mark.long
def test_headers_behind_a_dangling_link_are_missing_and_come(rhel: Machines) -> None:
    node = rhel()
    assert node.readlink(f"/lib/modules/{KERNEL}/build")
    one = capability(node)
    found = one.observe()
    assert found.machine.headers is False
    installs = [step.params for step in one.plan(found).steps if step.action == "install"]
    headers = [f"kernel-devel-{KERNEL}", f"kernel-devel-matched-{KERNEL}"]
    assert [*installs[0]["packages"]] == headers  # in a transaction of their own
    assert "kmod-nvidia-open-dkms" in installs[1]["packages"]


def test_modules_that_were_never_built_are_built_before_they_are_loaded(done: Rhel) -> None:
    node = done
    node.remove(f"/lib/modules/{KERNEL}/extra/nvidia.ko")
    node.boot(KERNEL)
    assert (node.modules(KERNEL), node.loaded()) == ([], "")
    assert converge(node).steps == ()
    assert (node.loaded(), node.works()) == (f"{VERSION} open", True)


@pytest.mark.long
def test_transaction_that_comes_to_nothing_is_refused_with_dnfs_words(rhel: Machines) -> None:
    node = rhel()
    node.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\nexcludepkgs=nvidia-kmod-common\n")
    before = node.installed()
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=r"(?s)dnf finds no way.*requires nvidia-kmod-common"):
            planned(node, check_mode=check_mode)
    assert node.installed() == before


@pytest.mark.long
def test_missing_versionlock_is_refused_in_the_plan(rhel: Machines) -> None:
    node = rhel(versionlock=False)
    before = node.installed()
    words = r"(?s)can't lock packages.*python3-dnf-plugin-versionlock"
    with pytest.raises(NodeError, match=words):
        planned(node)
    with pytest.raises(NodeError, match=words):
        converge(node)
    assert node.installed() == before
    assert planned(node, check_mode=False, hold=False).steps


def test_lock_of_somebody_else_is_named(done: Rhel) -> None:
    done.dnf("versionlock", "add", LIBRARIES)
    with pytest.raises(NodeError, match=rf"would change {LIBRARIES}, on hold; nothing was changed"):
        planned(done, version="570")


@pytest.mark.long
def test_module_type_of_another_stays_on_rhel(rhel: Machines) -> None:
    node = rhel()
    node.dnf("install", "kernel-devel")
    node.dnf("install", "kmod-nvidia-latest-dkms", "nvidia-driver-cuda")
    assert converge(node).steps == ()
    assert node.loaded() == f"{VERSION} proprietary"


@pytest.mark.long
@pytest.mark.parametrize("stream", ["", "580-dkms"])
def test_exchanged_kernel_modules_of_another_are_given_back(rhel: Machines, stream: str) -> None:
    node = rhel()
    node.dnf("install", f"kernel-devel-{KERNEL}", f"kernel-devel-matched-{KERNEL}")
    if stream:
        node.dnf("module", "enable", f"nvidia-driver:{stream}")
    node.dnf("install", KMODS["proprietary"], "nvidia-driver-cuda")
    node.boot()
    if not stream:  # so that a transaction with the headers comes first
        node.run(["rpm", "--erase", "--nodeps", "kernel-devel", "kernel-devel-matched"])
    before, had = node.installed(), enabled(node)
    assert converge(node, kernel_modules="open").steps == ()
    assert KMODS["proprietary"] not in node.installed()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{VERSION} open", True)
    assert converge(node, kernel_modules="open").steps == ()
    converge(node, state="absent")
    assert (node.installed(), node.held(), enabled(node)) == (before, set(), had)
    node.boot()
    assert (node.loaded(), node.works()) == (f"{VERSION} proprietary", True)


@pytest.mark.long
def test_exchanged_kernel_modules_that_cannot_be_had_any_more_leave_driver_and_stream(
    rhel: Machines,
) -> None:
    node = rhel()
    node.dnf("install", f"kernel-devel-{KERNEL}", f"kernel-devel-matched-{KERNEL}")
    node.dnf("install", KMODS["proprietary"], "nvidia-driver-cuda")
    assert converge(node, kernel_modules="open").steps == ()
    there, stream = node.installed(), enabled(node)
    node.put("etc/dnf/dnf.conf", f"[main]\ngpgcheck=0\nexcludepkgs={KMODS['proprietary']}\n")
    assert "leave the driver as it is" in planned(node, state="absent").steps[-1].summary
    converge(node, state="absent")
    assert (node.installed(), node.held(), enabled(node)) == (there, set(), stream)


def test_dkms_brings_no_other_kernel_and_absent_takes_none(done: Rhel) -> None:
    node = done
    assert node.listdir("/lib/modules") == [KERNEL]
    node.dnf("upgrade")
    assert sorted(node.listdir("/lib/modules")) == [KERNEL, EL9.newer]
    converge(node, state="absent")
    assert sorted(node.installed()) == ["kernel-core"]
    assert sorted(node.listdir("/lib/modules")) == [KERNEL, EL9.newer]


def test_what_others_came_to_need_stays(done: Rhel) -> None:
    done.offer("more", [Rpm("torch", "3.0-1", (f"Requires: {LIBRARIES}",))])
    done.dnf("install", "torch")
    converge(done, state="absent")
    # The libraries came as a dependency, and stay as one.
    assert set(done.installed()) == {"kernel-core", LIBRARIES, "torch"}


def test_kernel_whose_headers_are_gone_from_the_sources_is_refused(rhel: Machines) -> None:
    node = rhel()
    node.offer("base", kernel(EL9, EL9.newer))
    before = node.installed()
    words = (
        f"running kernel {KERNEL}: its headers are neither installed nor available as kernel-devel"
    )
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=words):
            planned(node, check_mode=check_mode)
    assert node.installed() == before


def test_transaction_that_was_killed_is_finished(done: Rhel) -> None:
    """It leaves both versions of a package: an upgrade the older one, and a downgrade the newer one."""
    for wanted, other in ((VERSION, "580.82.07"), (VERSION, "590.44.01")):
        twice = Rpm(LIBRARIES, f"{other}-1.el9", epoch=3)
        done.offer("more", [twice])
        words = ["rpm", "--install", "--nodeps", "--oldpackage", str(twice.path)]
        assert done.run(words, check=False).rc == 0
        assert converge(done).steps == ()
        there = done.run(["rpm", "-q", "--qf", "%{VERSION}\n", LIBRARIES]).out.split()
        assert (there, KMODS["open"] in done.installed()) == ([wanted], True)
