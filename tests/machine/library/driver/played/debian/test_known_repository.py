# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's repository beside Debian's archive on a played Debian 13, made known by somebody else (cuda-keyring)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.debian.debian_archive import KERNELS, Machines, PlayedDebian, archive
from tests.fakes.played.debs import Deb

TRIXIE = KERNELS["trixie"]
DEBIANS, NVIDIAS = "550.163.01", "595.71.05"


def nvidia_packages(version: str) -> tuple[Deb, ...]:
    """Return NVIDIA's packages for Debian 13, which have names of Debian's with relations of their own.

    The relations are those of NVIDIA's repository for Ubuntu; those for Debian were not seen.
    """
    full = f"{version}-1"
    depends = {
        "nvidia-driver-cuda": f"libcuda1 (= {full}), nvidia-persistenced (= {full})",
        "nvidia-persistenced": f"libnvidia-cfg1 (= {full})",
        "nvidia-kernel-open-dkms": "dkms",
        "nvidia-kernel-dkms": "dkms",
        "libcuda1": "",
        "libnvidia-cfg1": "",
        "libnvidia-ml1": "",
    }
    return tuple(
        Deb(name, full, (("Depends", needs),), component="contrib", suite="noble")
        for name, needs in depends.items()
    )


@pytest.fixture
def node(debian: Machines) -> PlayedDebian:
    return debian((*archive(TRIXIE, DEBIANS), *nvidia_packages(NVIDIAS)), TRIXIE)


@pytest.mark.parametrize("options", [{}, {"source": "distribution"}, {"version": "550"}])
def test_persistence_daemon_follows_the_version_of_the_driver(
    node: PlayedDebian, options: dict[str, Any]
) -> None:
    before = node.installed()
    promised = planned(node, **options)
    assert promised.steps
    assert converge(node, **options).steps == ()
    installed = node.installed()
    assert installed["nvidia-persistenced"] == f"{DEBIANS}-1"
    assert installed["libcuda1"] == f"{DEBIANS}-1"
    assert node.works()
    assert converge(node, state="absent").steps == ()
    assert node.installed() == before
