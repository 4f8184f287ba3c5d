# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver on a played Rocky 9 whose dnf is genuine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError

from tests.fakes.packages.driver_runs import capability, converge
from tests.fakes.played.rhel.played_rhel import Rhel
from tests.fakes.played.rhel.rhel_archive import VERSION, index, kernel
from tests.fakes.played.rhel.rhel_systems import EL9

KERNEL = EL9.kernel


def test_headers_behind_a_dangling_link_are_missing_and_come(rhel: Callable[..., Rhel]) -> None:
    node = rhel()
    node.switch("epel", on=True)
    assert node.readlink(f"/lib/modules/{KERNEL}/build")
    one = capability(node)
    assert one.observe().headers is False
    left = converge(node)
    assert (left.steps, left.reboot_required) == ((), ())
    assert "kernel-devel" in node.installed()
    assert (node.loaded(), node.works()) == (f"{VERSION} open", True)


def test_modules_that_were_never_built_are_built_before_they_are_loaded(
    rhel: Callable[..., Rhel],
) -> None:
    node = rhel()
    node.switch("epel", on=True)
    node.dnf("module", "enable", "nvidia-driver:open-dkms")
    node.dnf("install", "kmod-nvidia-open-dkms", "nvidia-driver-cuda", f"kernel-devel-{KERNEL}")
    node.remove(f"/lib/modules/{KERNEL}/extra/nvidia.ko")
    assert node.modules(KERNEL) == []
    assert converge(node).steps == ()
    assert (node.loaded(), node.works()) == (f"{VERSION} open", True)


def test_headers_come_in_a_transaction_before_the_modules(rhel: Callable[..., Rhel]) -> None:
    node = rhel()
    node.switch("epel", on=True)
    one = capability(node)
    installs = [step.params for step in one.plan(one.observe()).steps if step.action == "install"]
    headers = [f"kernel-devel-{KERNEL}", f"kernel-devel-matched-{KERNEL}"]
    assert [*installs[0]["packages"]] == headers
    assert "kmod-nvidia-open-dkms" in installs[1]["packages"]


@pytest.mark.parametrize("check_mode", [True, False])
def test_transaction_that_comes_to_nothing_is_refused_with_dnfs_words(
    rhel: Callable[..., Rhel], check_mode: bool
) -> None:
    node = rhel()
    node.switch("epel", on=True)
    node.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\nexcludepkgs=nvidia-kmod-common\n")
    before = node.installed()
    one = capability(node, check_mode=check_mode)
    with pytest.raises(NodeError, match=r"(?s)dnf finds no way.*requires nvidia-kmod-common"):
        one.plan(one.observe())
    assert node.installed() == before


def test_missing_versionlock_is_refused_in_the_plan(rhel: Callable[..., Rhel]) -> None:
    node = rhel(versionlock=False)
    node.switch("epel", on=True)
    before = node.installed()
    one = capability(node, check_mode=True)
    with pytest.raises(
        NodeError, match=r"(?s)cannot lock packages.*python3-dnf-plugin-versionlock"
    ):
        one.plan(one.observe())
    with pytest.raises(NodeError, match="cannot lock packages"):
        converge(node)
    assert node.installed() == before
    assert converge(node, hold=False).steps == ()
    assert node.works()


def test_module_type_of_another_stays_on_rhel(rhel: Callable[..., Rhel]) -> None:
    node = rhel()
    node.switch("epel", on=True)
    node.dnf("install", "kernel-devel")
    node.dnf("install", "kmod-nvidia-latest-dkms", "nvidia-driver-cuda")
    assert converge(node).steps == ()
    assert node.loaded() == f"{VERSION} proprietary"


def test_dkms_brings_no_other_kernel_and_absent_takes_none(
    rhel: Callable[..., Rhel],
) -> None:
    node = rhel()
    node.switch("epel", on=True)
    converge(node)
    assert node.listdir("/lib/modules") == [KERNEL]
    node.dnf("upgrade")
    assert sorted(node.listdir("/lib/modules")) == [KERNEL, EL9.newer]
    converge(node, state="absent")
    assert sorted(node.installed()) == ["kernel-core"]
    assert sorted(node.listdir("/lib/modules")) == [KERNEL, EL9.newer]


@pytest.mark.parametrize("check_mode", [True, False])
def test_kernel_whose_headers_are_gone_from_the_sources_is_refused(
    rhel: Callable[..., Rhel], tmp_path: Path, check_mode: bool
) -> None:
    node = rhel()
    node.switch("epel", on=True)
    kernel(tmp_path / "moved", EL9, EL9.newer)
    index(tmp_path / "moved")
    node.repositories = {**node.repositories, "base": tmp_path / "moved"}
    node.switch("base", on=True)
    before = node.installed()
    one = capability(node, check_mode=check_mode)
    words = (
        f"running kernel {KERNEL}: its headers are neither installed nor offered as kernel-devel"
    )
    with pytest.raises(NodeError, match=words):
        one.plan(one.observe())
    assert node.installed() == before
