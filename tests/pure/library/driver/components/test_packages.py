# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a component means on each system."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Version
from ansible_collections.gpu.node.plugins.module_utils._driver.families.debian import DEBIAN
from ansible_collections.gpu.node.plugins.module_utils._driver.families.rhel import RHEL
from ansible_collections.gpu.node.plugins.module_utils._driver.families.suse import SUSE
from ansible_collections.gpu.node.plugins.module_utils._driver.families.ubuntu import UBUNTU
from ansible_collections.gpu.node.plugins.module_utils._driver.packages import components
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    Names,
    Offer,
    Requirements,
)

KERNEL = "6.4.0-150700.53.40-default"
SERVER = frozenset({"nvidia-dkms-580-server", "nvidia-dkms-580-server-open"})
UNIFIED = frozenset({"nvidia-dkms", "nvidia-dkms-open", "nvidia-utils", "nvidia-persistenced"})
NAMES = {
    "debian": DEBIAN.names(Offer(), Requirements()),
    "debian, NVIDIA's": DEBIAN.names(Offer(), Requirements(repository=True)),
    "ubuntu": UBUNTU.names(Offer(SERVER), Requirements()),
    "ubuntu, NVIDIA's": UBUNTU.names(Offer(UNIFIED), Requirements(repository=True)),
    "rhel": RHEL.names(Offer(), Requirements()),
    "suse": SUSE.names(Offer(), Requirements(Version("580"), kernel=KERNEL)),
}
VIDEO = {
    "debian": {"libnvcuvid1", "libnvidia-encode1"},
    "debian, NVIDIA's": {"libnvcuvid1", "libnvidia-encode1"},
    "ubuntu": {"libnvidia-decode-580-server", "libnvidia-encode-580-server"},
    "ubuntu, NVIDIA's": {"libnvidia-decode", "libnvidia-encode"},
    "rhel": {"nvidia-driver-cuda-libs"},
    "suse": {"nvidia-compute-G06"},
}
GRAPHICS = {
    "debian": {"libgles-nvidia2", "nvidia-driver-libs", "nvidia-vulkan-icd"},
    "debian, NVIDIA's": {"libgles-nvidia2", "nvidia-driver-libs", "nvidia-vulkan-icd"},
    "ubuntu": {"libnvidia-gl-580-server"},
    "ubuntu, NVIDIA's": {"libnvidia-gl"},
    "rhel": {"nvidia-driver-libs"},
    "suse": {"nvidia-gl-G06"},
}


@pytest.mark.parametrize(("system", "names"), NAMES.items(), ids=[*NAMES])
def test_components_mean_the_packages_of_each_system(system: str, names: Names) -> None:
    assert {*names.parts["video"]} == VIDEO[system]
    assert {*names.parts["graphics"]} == GRAPHICS[system]
    found = components.extend(names, ["video", "graphics", "dcgm"], "580")
    assert {*found.user_space} >= {*names.user_space, *VIDEO[system], *GRAPHICS[system]}
    assert VIDEO[system] | GRAPHICS[system] <= found.matched
    assert not found.matched & {*components.ALL_DCGM}
    assert components.extend(names, ["compute"]) == names


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("580.95.05", "13"),
        ("575", "12"),
        ("525", "12"),
        ("3:520.61.05-1", "11"),
        ("390", ""),
        ("", ""),
    ],
)
def test_dcgm_has_the_diagnostics_of_the_drivers_cuda(version: str, major: str) -> None:
    found = components.dcgm(components.cuda(version))
    assert found[:1] == ("datacenter-gpu-manager-4-core",)
    assert [one for one in found if "cuda" in one] == (
        [f"{components.DCGM}-cuda{major}", f"{components.DCGM}-proprietary-cuda{major}"]
        if major
        else []
    )


def test_dcgm_without_what_is_proprietary_and_for_each_cuda() -> None:
    assert components.dcgm("all", proprietary=False) == (
        "datacenter-gpu-manager-4-core",
        "datacenter-gpu-manager-4-cuda-all",
    )


@pytest.mark.parametrize("name", ["vidoe", "graphic", "Video", "compte", "dcmg"])
def test_misspelt_component_names_the_one_that_is_meant(name: str) -> None:
    with pytest.raises(InputError, match=rf"'{name}'.*or the name of a package"):
        components.check_name(name)


@pytest.mark.parametrize("name", ["video", "libnvidia-gl-580", "nvtop", "nvidia-smi"])
def test_components_and_packages_are_no_misspelling(name: str) -> None:
    components.check_name(name)


def test_part_of_another_branch_is_not_dropped_while_its_component_is_wanted() -> None:
    names = components.extend(NAMES["ubuntu"], ["video"])
    requested = [
        "libnvidia-encode-570-server",
        "libnvidia-gl-570-server",
        "nvidia-utils-570-server",
    ]
    assert components.dropped(names, ["video"], requested) == ["libnvidia-gl-570-server"]


def test_what_computing_needs_is_not_dropped_where_a_component_has_it_too() -> None:
    requested = ["nvidia-compute-G06", "nvidia-gl-G06"]
    assert components.dropped(NAMES["suse"], [], requested) == ["nvidia-gl-G06"]
