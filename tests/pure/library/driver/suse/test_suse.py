# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The names in SUSE: what of several generations, builds and repositories belongs together."""

from __future__ import annotations

import re

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import Policy
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Version
from ansible_collections.gpu.node.plugins.module_utils._driver.families.suse import (
    SUSE,
    kernel_flavour,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    Names,
    Offer,
    Requirements,
)

CUDA06 = "nvidia-open-driver-G06-signed-cuda-kmp-default"
CUDA07 = "nvidia-open-driver-G07-signed-cuda-kmp-default"
SIGNED06 = "nvidia-open-driver-G06-signed-kmp-default"
SIGNED07 = "nvidia-open-driver-G07-signed-kmp-default"
DKMS07 = "nvidia-open-driver-G07"
UTILS06, UTILS07 = "nvidia-compute-utils-G06", "nvidia-compute-utils-G07"
KERNEL = "6.4.0-150700.53.40-default"
# The desktop's repository is newer than CUDA's for one generation, and both builds are in SUSE's channels.
OFFERED = {
    SIGNED06: ["580.126.09_k6.4.0_150700.51-1.1"],
    CUDA06: ["580.105.08_k6.4.0_150700.51-1.1", "570.195.03_k6.4.0_150700.51-1.1"],
    SIGNED07: ["590.48.01_k6.4.0_150700.53-1.1"],
    CUDA07: ["595.71.05_k6.4.0_150700.53-1.1"],
    DKMS07: ["610.57.04-1"],
    "nvidia-driver-G06": ["580.105.08-1"],
}
CUDA_REPOSITORY = {
    UTILS06: ["580.105.08-1", "570.195.03-1"],
    UTILS07: ["610.57.04-1", "595.71.05-1"],
    "nvidia-persistenced": ["610.57.04-1", "595.71.05-1"],
}
DESKTOP_REPOSITORY = {UTILS06: ["580.126.09-1.1"], UTILS07: ["590.48.01-1.1"]}


def names(
    offered: dict[str, list[str]],
    wanted: str = "",
    installed: tuple[str, ...] = (),
    kind: str = "open",
    kernel: str = KERNEL,
) -> Names:
    policies = {name: Policy(versions[0], tuple(versions)) for name, versions in offered.items()}
    there = {name: offered[name][0] for name in installed}
    return SUSE.names(
        Offer(policies=policies, installed=there), Requirements(Version(wanted), kind, kernel)
    )


@pytest.mark.parametrize(
    ("user_space", "wanted", "installed", "kernel"),
    [
        (CUDA_REPOSITORY, "", (), CUDA07),
        (CUDA_REPOSITORY, "580", (), CUDA06),
        (CUDA_REPOSITORY, "570.195.03", (), CUDA06),
        (CUDA_REPOSITORY, "610", (), DKMS07),
        (DESKTOP_REPOSITORY, "", (), SIGNED07),
        (DESKTOP_REPOSITORY, "590", (), SIGNED07),
        (DESKTOP_REPOSITORY, "580", (), SIGNED06),
        (CUDA_REPOSITORY, "", (CUDA06, UTILS06), CUDA06),
        (CUDA_REPOSITORY, "595", (CUDA06, UTILS06), CUDA07),
        (CUDA_REPOSITORY, "", (DKMS07, UTILS07), DKMS07),
        (DESKTOP_REPOSITORY, "999", (), SIGNED07),
        ({}, "", (), CUDA07),
    ],
)
def test_modules_are_those_that_share_a_version_with_the_user_space(
    user_space: dict[str, list[str]], wanted: str, installed: tuple[str, ...], kernel: str
) -> None:
    found = names({**OFFERED, **user_space}, wanted, installed)
    assert found.modules.by_type["open"] == kernel
    generation = re.findall(r"-G\d+", kernel)[0]
    assert all(name.endswith(generation) for name in found.user_space if "compute" in name)
    assert (kernel in found.modules.signed) is ("signed" in kernel)


def test_branch_tells_the_generation_before_anything_is_offered() -> None:
    assert names({}, "580").modules.by_type["open"] == CUDA06
    assert names({}, "595").modules.by_type["open"] == CUDA07
    assert names({}).modules.by_type["open"] == CUDA07


def test_persistence_daemon_is_a_package_of_its_own_where_it_has_the_version() -> None:
    offered = {**OFFERED, **CUDA_REPOSITORY}
    assert names(offered, "595").persistenced == "nvidia-persistenced"
    assert names(offered, "595").user_space == (
        "nvidia-compute-G07",
        UTILS07,
        "nvidia-persistenced",
    )
    assert names(offered, "580").persistenced == UTILS06
    assert names(offered, "580").user_space == ("nvidia-compute-G06", UTILS06)


def test_old_gpus_get_the_proprietary_modules_of_the_generation_that_has_them() -> None:
    found = names({**OFFERED, **CUDA_REPOSITORY}, kind="proprietary")
    assert found.modules.by_type == {"open": CUDA06, "proprietary": "nvidia-driver-G06"}


def test_modules_are_those_of_the_running_kernels_flavour() -> None:
    azure = CUDA06.replace("default", "azure")
    offered = {azure: OFFERED[CUDA06], **CUDA_REPOSITORY}
    assert names(offered, kernel="6.4.0-150600.8.48-azure").modules.by_type["open"] == azure
    assert [kernel_flavour(one) for one in ("6.4.0-1-64kb", "6.4.0", "6.4.0-1.el9")] == [
        "64kb",
        "default",
        "default",
    ]


def test_every_candidate_with_modules_is_known_as_such() -> None:
    modules = [
        one for one in SUSE.candidates(Offer(), Requirements(kernel=KERNEL)) if "driver" in one
    ]
    assert len(modules) == 12
    assert all(map(SUSE.traits.type_of, modules))
    assert not SUSE.traits.type_of(UTILS06)


@pytest.mark.parametrize(
    "name",
    [
        *("nvidia-gfxG05-kmp-default", "nvidia-computeG05", "nvidia-glG04", "x11-video-nvidiaG05"),
        *("nvidia-gfxG06-kmp-azure", "nvidia-driver-G05-kmp-default", "nvidia-compute-utils-G05"),
    ],
)
def test_packages_of_older_generations_are_refused_by_name(name: str) -> None:
    with pytest.raises(NodeError, match=rf"zypper remove {name}$"):
        SUSE.refuse_others([name, CUDA06])


def test_packages_of_current_generations_are_not_refused() -> None:
    SUSE.refuse_others([*OFFERED, *CUDA_REPOSITORY, "nvidia-common-G06", "nvidia-gl-G07"])
