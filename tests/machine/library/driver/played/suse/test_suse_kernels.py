# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Kernels of SUSE and the signed modules that fit them: a fresh node, updates, and a kernel whose symbols changed."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import capability, converge, planned
from tests.fakes.played.suse import suse_archive as archive
from tests.fakes.played.suse.played_suse import Machines
from tests.fakes.played.suse.suse_archive import K3, K22, OLD, SLE16, SP6, SP7, Release, uname

KMP = "nvidia-open-driver-G06-signed-cuda-kmp-default"


OTHERS = (pytest.param(one, marks=pytest.mark.long) for one in (SP6, SLE16))


@pytest.mark.parametrize("release", [SP7, *OTHERS], ids=lambda one: one.version)
def test_fresh_suse_gets_signed_modules_and_goes_back(suse: Machines, release: Release) -> None:
    node = suse(archive.fresh(release), release=release)
    before = node.installed()
    left = converge(node)
    assert (left.steps, left.reboot_required, left.warnings) == ((), (), ())
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert KMP in node.held()
    assert planned(node, check_mode=False).steps == ()
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, set())
    assert "nvidia" not in node.locks()


def test_kernel_that_the_modules_fit_needs_nothing(suse: Machines) -> None:
    node = suse.driven(archive.fresh())
    node.archive(archive.LATER)
    node.zypper("update")
    left = converge(node)
    assert (left.steps, left.warnings) == ((), ())
    assert node.boot() == uname(archive.K16)
    assert node.works()
    assert converge(node).steps == ()


def test_kernel_that_needs_other_modules_is_told_with_the_build_that_helps(
    suse: Machines,
) -> None:
    node = suse.driven(archive.fresh())
    node.archive(archive.REBUILT)
    node.zypper("update")
    left = converge(node)
    assert left.steps == ()
    (warning,) = left.warnings
    assert uname(K22) in warning
    assert f"{KMP} {OLD}_k6.4.0_150700.53.22-1.1 is built for it" in warning
    assert "boot it and run again" in warning


def test_running_kernel_gets_the_build_that_is_made_for_it(
    suse: Machines,
) -> None:
    node = suse.driven(archive.fresh())
    node.archive(archive.REBUILT)
    node.zypper("update")
    assert node.boot() == uname(K22)
    assert not node.works()
    assert converge(node).steps == ()
    assert (node.modules(uname(K22)), node.works()) == ([f"{OLD} open"], True)
    assert KMP in node.held()


def test_older_kernel_gets_the_build_that_fits_it(suse: Machines) -> None:
    node = suse(archive.REBUILT, kernel=K3)
    assert converge(node).steps == ()
    assert (node.modules(uname(K3)), node.works()) == ([f"{OLD} open"], True)
    assert node.listdir("/boot") == [f"vmlinuz-{uname(K3)}"]


def test_modules_of_newer_kernels_only_come_with_their_kernel_and_a_reboot(
    suse: Machines,
) -> None:
    node = suse(archive.ONLY_NEWER, kernel=K3)
    one = capability(node, check_mode=True)
    assert "kernel-default is installed along" in str(one.plan(one.observe()).warnings)
    left = converge(node)
    assert left.steps == ()
    (reason,) = left.reboot_required
    assert f"{uname(K3)} has no modules of the driver: boot {uname(K22)}" in reason
    assert node.boot() == uname(K22)
    left = converge(node)
    assert (left.steps, left.reboot_required, node.works()) == ((), (), True)


def test_kernel_that_came_along_stays_with_those_before(suse: Machines) -> None:
    """Kernels are multiversion: their name is not that of an addition only."""
    node = suse(archive.ONLY_NEWER, kernel=K3)
    converge(node)
    node.boot()
    converge(node)
    converge(node, state="absent")
    assert set(node.installed()) == {"kernel-default"}
    assert node.listdir("/boot") == [f"vmlinuz-{uname(one)}" for one in (K22, K3)]


def test_kernel_without_any_fitting_build_is_refused_in_the_plan(
    suse: Machines,
) -> None:
    node = suse.driven(archive.fresh())
    node.archive(archive.BROKEN)
    node.zypper("update")
    node.boot()
    one = capability(node, check_mode=True)
    with pytest.raises(NodeError, match=rf"{KMP} .*{uname(K22)}.*boot {uname(K3)}"):
        one.plan(one.observe())
    assert converge(node, load=False).steps == ()


def test_moves_to_the_version_that_the_running_kernel_has_a_build_of(
    suse: Machines,
) -> None:
    node = suse.driven(archive.fresh())
    node.archive(archive.REBUILT_NEWER)
    node.zypper("update")
    node.boot()
    assert converge(node).steps == ()
    assert (node.loaded(), node.works()) == (f"{archive.NEW} open", True)


@pytest.mark.parametrize(
    ("stage", "boots"),
    [
        pytest.param(archive.REBUILT, [], marks=pytest.mark.long),
        (archive.REBUILT_NEWER, [f"boot {uname(K22)}, which has them"]),
    ],
    ids=["the same version", "a newer one"],
)
def test_without_holds_an_update_brings_kernel_and_modules_and_a_run_before_the_boot_keeps_them(
    suse: Machines, stage: archive.Stage, boots: list[str]
) -> None:
    node = suse.driven(archive.fresh(), hold=False)
    node.archive(stage)
    node.zypper("update")
    before = node.installed()
    left = converge(node, hold=False, reload="when_idle")
    assert (left.steps, node.installed(), node.loaded()) == ((), before, f"{OLD} open")
    assert [one.rpartition(": ")[2] for one in left.reboot_required] == boots
    assert node.boot() == uname(K22)
    assert node.works()
    assert converge(node, hold=False).steps == ()
