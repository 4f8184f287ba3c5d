# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Precompiled kernel modules for Secure Boot, on a played Rocky 9 whose dnf is genuine.

The newer kernel has modules of both versions of branch 580, the running one of the older version only.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned, reported
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import OLDER, VERSION
from tests.fakes.played.rhel.rhel_systems import EL9
from tests.machine.library.driver.played.rhel.test_rhel_streams import enabled

pytestmark = [pytest.mark.long]
SHORT = "5.14.0-570.12.1"
READY, NEXT = f"kmod-nvidia-{OLDER}-{SHORT}", f"kmod-nvidia-{OLDER}-5.14.0-570.23.1"
OPEN = f"kmod-nvidia-open-{VERSION}-{SHORT}"


@pytest.fixture
def node(rhel: Machines) -> Rhel:
    """Return a machine with Secure Boot, which does not know EPEL."""
    return rhel(epel=False, secure_boot=True)


def test_modules_that_nvidia_has_signed_come_with_its_stream(node: Rhel) -> None:
    node.enrolled = ["NVIDIA"]
    found = planned(node, kernel_modules="proprietary", version="580")
    assert found.after["packages"][READY] == f"3:{OLDER}-3.el9_6"
    assert converge(node, kernel_modules="proprietary", version="580").steps == ()
    assert (enabled(node), node.loaded(), node.works()) == ("580", f"{OLDER} proprietary", True)
    assert not {"dkms", "kernel-devel"} & node.installed().keys()
    assert READY in node.held()
    converge(node, state="absent")
    assert (enabled(node), [*node.installed()]) == ("", ["kernel-core"])


def test_another_kernel_gets_its_modules_and_keeps_the_version(node: Rhel) -> None:
    node.enrolled = ["NVIDIA"]
    wanted = {"kernel_modules": "proprietary", "version": "580"}
    converge(node, **wanted)
    node.dnf("install", f"kernel-core-{EL9.newer}")
    assert converge(node, **wanted).steps == ()
    assert {READY, NEXT} <= node.installed().keys()
    node.boot(EL9.newer)
    assert (node.loaded(), node.works()) == (f"{OLDER} proprietary", True)
    assert converge(node, **wanted).steps == ()
    assert reported(node, **wanted)["newer_version"] == VERSION
    left = converge(node, update=True, reload="when_idle", **wanted)
    assert (left.steps, node.loaded(), node.works()) == ((), f"{VERSION} proprietary", True)


def test_key_of_nvidia_that_is_not_enrolled_is_named(node: Rhel) -> None:
    before = node.installed()
    with pytest.raises(NodeError, match=rf"{READY} is signed with NVIDIA's key.*mokutil --import"):
        converge(node, kernel_modules="proprietary", version="580")
    assert (node.installed(), enabled(node)) == (before, "")
    assert planned(node, kernel_modules="proprietary", version="580", secure_boot="ignore").steps


def test_modules_that_the_distribution_has_signed_need_no_key(node: Rhel) -> None:
    node.switch("extensions", on=True)
    assert converge(node).steps == ()
    assert (OPEN in node.installed(), node.loaded()) == (True, f"{VERSION} open")
    assert "dkms" not in node.installed()


def test_refusal_of_dkms_names_modules_that_are_signed_already(node: Rhel) -> None:
    node.enrolled = ["NVIDIA"]
    node.switch("epel", on=True)
    words = rf"Secure Boot is on.*set kernel_modules to proprietary, whose modules kmod-nvidia-{VERSION[:3]}.*{SHORT}"
    with pytest.raises(NodeError, match=words):
        planned(node)
    with pytest.raises(NodeError, match=r"boot a kernel that has.*already: 5.14.0-570.12.1, 5.14"):
        planned(node, version="570")


def test_required_modules_that_are_not_there_are_refused_with_the_kernels_that_have_some(
    rhel: Machines,
) -> None:
    node = rhel()
    words = rf"no precompiled kernel modules that fit.*{EL9.kernel}.*5.14.0-570.23.1.*boot such a kernel"
    with pytest.raises(NodeError, match=words):
        planned(node, kernel_modules="proprietary", version=VERSION, precompiled="require")
    assert converge(node, kernel_modules="proprietary", precompiled="require").steps == ()
    assert READY in node.installed()


def test_what_dkms_has_built_is_not_exchanged_unasked(node: Rhel) -> None:
    node.switch("epel", on=True)
    node.enrolled = ["NVIDIA"]
    assert converge(node, kernel_modules="proprietary", precompiled="never", secure_boot="ignore")
    assert converge(node, kernel_modules="proprietary", secure_boot="ignore").steps == ()
    assert "kmod-nvidia-latest-dkms" in node.installed()


def test_dkms_whose_key_is_enrolled_comes_before_a_key_that_is_not(node: Rhel) -> None:
    node.switch("epel", on=True)
    node.put("var/lib/dkms/mok.pub", "")
    node.enrolled = ["/var/lib/dkms/mok.pub"]
    found = planned(node, kernel_modules="proprietary", version="580")
    assert "kmod-nvidia-latest-dkms" in found.after["packages"]
    node.enrolled += ["NVIDIA"]
    found = planned(node, kernel_modules="proprietary", version="580")
    assert READY in found.after["packages"]
