# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Components by the names that people use, on a played Rocky 9 whose dnf is genuine.

nvidia-driver-libs and what it needs: nvidia-driver.spec of NVIDIA's yum-packaging-nvidia-driver, of which egl-wayland
stands for all. DCGM's packages: cmake/packaging.cmake of NVIDIA's DCGM 4.6.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.packages.driver_runs import converge
from tests.fakes.played.rhel.played_rhel import TOOLS, Rhel
from tests.fakes.played.rhel.rhel_archive import VERSION, build, index, repositories, streams_of
from tests.fakes.played.rhel.rhel_bodies import NO_FILES
from tests.fakes.played.rhel.rhel_systems import EL9

pytestmark = [pytest.mark.long]

DCGM = "datacenter-gpu-manager-4"
DCGM_13 = {f"{DCGM}-{one}" for one in ("core", "cuda13", "proprietary", "proprietary-cuda13")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if lacking := missing(TOOLS):
        pytest.skip(lacking)
    found = repositories(tmp_path_factory.mktemp("rhel"), EL9)
    cuda = found["cuda"]
    build(found["base"], "egl-wayland", "1.1.13.1-3", NO_FILES)
    index(found["base"])
    build(cuda, "nvidia-driver-libs", f"{VERSION}-1.el9", NO_FILES, "Requires: egl-wayland", 3)
    needs = f"Requires: {DCGM}-{{}} = 1:4.5.2-1"
    build(cuda, f"{DCGM}-core", "4.5.2-1", NO_FILES, "Conflicts: datacenter-gpu-manager", 1)
    for name, base in (
        ("cuda13", "core"),
        ("proprietary", "core"),
        ("proprietary-cuda13", "cuda13"),
    ):
        build(cuda, f"{DCGM}-{name}", "4.5.2-1", NO_FILES, needs.format(base), 1)
    index(cuda, streams_of(EL9, {}))
    return found


@pytest.fixture
def rhel(tmp_path: Path, built: dict[str, Path]) -> Callable[..., Rhel]:
    def make() -> Rhel:
        node = Rhel(tmp_path / "node", built, EL9)
        node.switch("epel", on=True)
        return node

    return make


def test_components_come_and_go_again(rhel: Callable[..., Rhel]) -> None:
    node = rhel()
    converge(node)
    before = node.installed()
    wanted = ["video", "graphics", "dcgm"]
    assert converge(node, components=wanted).steps == ()
    there = node.installed()
    more = {"nvidia-driver-libs", "egl-wayland"} | DCGM_13
    assert there.keys() - before.keys() == more
    assert (there["nvidia-driver-libs"], there[f"{DCGM}-core"]) == (VERSION, "4.5.2")
    assert converge(node, components=wanted).steps == ()
    assert converge(node, components=["video"]).steps == ()
    assert node.installed() == before


def test_component_of_a_version_that_has_none_is_refused(rhel: Callable[..., Rhel]) -> None:
    node = rhel()
    node.switch("cuda", on=False)
    before = node.installed()
    with pytest.raises(InputError, match=r"'dcgm'.*NVIDIA's repository for RHEL family"):
        converge(node, components=["dcgm"])
    assert node.installed() == before
