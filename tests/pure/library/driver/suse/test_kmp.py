# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which build of SUSE's kernel modules a kernel is to have."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import (
    Package,
    Policy,
    State,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import DriverState
from ansible_collections.gpu.node.plugins.module_utils._driver.families import suse
from ansible_collections.gpu.node.plugins.module_utils._driver.families.suse import SUSE
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import Modules
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.versions import Choice

from tests.fakes.packages.driver_nodes import changed
from tests.fakes.packages.driver_nodes import node as debian

NAME = "nvidia-open-driver-G06-signed-cuda-kmp-default"
DRIVER, OTHER = "580.95.05", "580.105.08"
OLD, NEW = "6.4.0-150700.53.3-default", "6.4.0-150700.53.22-default"


def full(built: str, driver: str = DRIVER) -> str:
    return f"{driver}_k6.4.0_150700.{built}-150700.3.1"


def node(
    *offered: str,
    installed: str = "",
    kernel: str = OLD,
    bare: tuple[str, ...] = (),
    kernels: tuple[str, ...] = (OLD,),
) -> DriverState:
    there = {NAME: Package(installed, "", State.INSTALLED)} if installed else {}
    return changed(
        debian(),
        traits=SUSE.traits,
        kernel=kernel,
        packages=there,
        policies={NAME: Policy(None, offered)},
        modules=Modules(bare=bare, kernels=kernels),
        driver=None,
    )


@pytest.mark.parametrize(
    ("version", "kernel"),
    [
        ("580.95.05_k6.4.0_150700.51-150700.3.1", "6.4.0-150700.51"),
        ("610.57.04_k6.12.0_160100.4-160100.1.3", "6.12.0-160100.4"),
        ("570.172.08_k6.4.0_150600.21-lp156.47.1", "6.4.0-150600.21"),
        ("580.95.05-1", ""),
    ],
)
def test_kernel_that_a_build_is_made_for(version: str, kernel: str) -> None:
    assert suse.built_for(version) == kernel


def test_build_is_the_nearest_that_is_not_for_a_newer_kernel() -> None:
    offered = (full("53.22"), full("53.3"), full("51"))
    assert suse.build(node(*offered), NAME, DRIVER) == full("53.3")
    assert suse.build(node(*offered, kernel=NEW), NAME, DRIVER) == full("53.22")
    assert suse.build(node(full("53.22")), NAME, DRIVER) is None
    assert suse.build(node(*offered), NAME, OTHER) is None
    arm = node(full("53.22"), kernel="6.4.0-150700.53.22-64kb")
    assert suse.build(arm, NAME, DRIVER) == full("53.22")


def test_installed_build_stays_while_the_running_kernel_has_its_modules() -> None:
    offered = (full("53.3"), full("51"))
    assert suse.build(node(*offered, installed=full("51")), NAME, DRIVER) == full("51")
    bare = node(*offered, installed=full("51"), bare=(OLD,))
    assert suse.build(bare, NAME, DRIVER) == full("53.3")
    assert suse.build(node(full("51"), installed=full("51"), bare=(OLD,)), NAME, DRIVER) is None


def test_versions_with_a_build_for_the_running_kernel_come_first_and_else_all() -> None:
    both = node(full("53.22"), full("51", OTHER))
    assert suse.usable(both, NAME, [DRIVER, OTHER]) == [OTHER]
    assert suse.usable(node(full("53.22")), NAME, [DRIVER]) == [DRIVER]
    assert suse.usable(node("580.95.05-1"), NAME, [DRIVER]) == [DRIVER]


def waits(observed: DriverState, version: str) -> str:
    return SUSE.waits(
        observed, Choice("open", DRIVER, {NAME: version}, (), observed.software.names, NAME)
    )


def test_modules_of_a_newer_kernel_only_wait_for_its_boot() -> None:
    version = full("53.22")
    there = node(version, installed=version, bare=(OLD,), kernels=(OLD, NEW))
    assert f"boot {NEW}" in waits(there, version)
    assert not suse.useless(there, NAME, version)
    none = node(version, installed=version, bare=(OLD, NEW), kernels=(OLD, NEW))
    assert (waits(none, version), suse.useless(none, NAME, version)) == ("", True)
    loaded = changed(none, driver=(DRIVER, "open"))
    assert not suse.useless(loaded, NAME, version)


def test_build_that_helps_a_kernel_is_newer_than_the_one_that_is_there() -> None:
    there = node(full("53.22"), full("51"), installed=full("51"))
    assert suse.helping(there, NAME, DRIVER, NEW) == full("53.22")
    assert suse.helping(there, NAME, DRIVER, OLD) == ""


def test_parts_of_other_generations_are_told_by_their_names() -> None:
    names = ("nvidia-compute-G06", NAME, "nvidia-persistenced", "x11-video-nvidiaG05", "vim")
    targets = ("nvidia-compute-G07", "nvidia-persistenced")
    assert SUSE.excluded(names, targets) == {"nvidia-compute-G06", NAME}
    assert SUSE.excluded(names, ("nvidia-compute-G06",)) == set()
    assert SUSE.excluded(names, ("nvidia-driver-cuda",)) == set()
