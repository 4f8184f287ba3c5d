# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Lists of packages for mirrors name what the modules install."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.distributions import (
    SUPPORTED,
    releases,
)
from ansible_collections.gpu.node.plugins.module_utils._bundle.mirror import parts, text

LISTS = {name: (distribution, words) for distribution, name, words in releases()}
TOOLKIT = {"nvidia-container-toolkit-base", "nvidia-container-toolkit"}


def packages(name: str, version: str = "") -> set[str]:
    distribution, words = LISTS[name]
    lines = text(words, parts(distribution, version)).splitlines()
    return {one for one in lines if one and not one.startswith("#")}


def test_each_supported_release_has_a_list() -> None:
    assert len(LISTS) == sum(len(one.releases) for one in SUPPORTED) > 10
    for name in LISTS:
        assert TOOLKIT | {"datacenter-gpu-manager-4-core"} < packages(name), name
        assert all(" " not in one or "<" in one for one in packages(name)), name


@pytest.mark.parametrize(
    ("name", "version", "wanted"),
    [
        ("debian-13", "", {"nvidia-open-kernel-dkms", "libnvidia-ml1", "python3-venv"}),
        ("debian-13", "", {"nvidia-kernel-open-dkms", "nvidia-driver-cuda"}),  # of NVIDIA's
        ("debian-13", "", {"firmware-nvidia-gsp", "linux-headers-<kernel>"}),
        ("ubuntu-24.04", "580", {"nvidia-dkms-580-server-open", "nvidia-utils-580-server"}),
        ("ubuntu-24.04", "", {"nvidia-dkms-<branch>-server-open"}),
        ("ubuntu-24.04", "580", {"datacenter-gpu-manager-4-cuda13"}),
        ("rhel-family-9", "", {"kmod-nvidia-open-dkms", "dkms", "python3.12"}),
        ("rhel-family-9", "", {"kernel-devel-<kernel>", "nvidia-fabric-manager"}),
        ("suse-15.7", "580", {"nvidia-compute-utils-G06", "python312"}),
    ],
)
def test_names_are_those_that_the_modules_install(
    name: str, version: str, wanted: set[str]
) -> None:
    assert wanted <= packages(name, version)


def test_where_one_package_is_enough_the_list_says_so() -> None:
    distribution, words = LISTS["rhel-family-9"]
    (python,) = (one for one in parts(distribution, "") if one.any_of)
    assert python.packages[0] == "python3.14"
    assert "one of these is enough" in text(words, [python])
