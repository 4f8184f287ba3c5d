# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Components by the names that people use, through the genuine zypper.

nvidia-gl-G06 has OpenGL, EGL and Vulkan, nvidia-compute-G06 has NVENC and NVDEC: nvidia-driver-G06.spec of openSUSE.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.packages.debian import converge
from tests.fakes.packages.rpm_nodes import (
    SYSTEMS,
    VERSIONS,
    RpmNode,
    _build,
    _indexed,
    missing,
    repository,
)

pytestmark = [pytest.mark.skipif(bool(missing("zypper")), reason="needs zypper")]

GRAPHICS, DCGM = "nvidia-gl-G06", "datacenter-gpu-manager-4"
DCGM_13 = {f"{DCGM}-{one}" for one in ("core", "cuda13", "proprietary", "proprietary-cuda13")}


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("suse")
    repository(work)
    for version in VERSIONS:
        needs = "Requires: nvidia-compute-G06 = {version}\nRequires: libvulkan1"
        _build(work, {GRAPHICS: needs}, version, "1.1", 0)
    _build(work, {"libvulkan1": ""}, "1.3.275", "1", 0)
    of_core = f"Requires: {DCGM}-core = {{version}}"
    _build(work, {one: "" if one.endswith("core") else of_core for one in DCGM_13}, "4.6.0", "1", 1)
    return _indexed(work)


def test_components_come_at_the_drivers_version_and_go_again(repo: Path, tmp_path: Path) -> None:
    node = RpmNode(tmp_path, repo, SYSTEMS["zypper"])
    node.files["/proc/sys/kernel/osrelease"] = "6.4.0-150600.21-default\n"
    converge(node, version="580.82.07")
    before = node.installed()
    wanted = ["video", "graphics", "dcgm"]
    assert converge(node, version="580.82.07", components=wanted).steps == ()
    there = node.installed()
    assert there.keys() - before.keys() == {GRAPHICS, "libvulkan1", *DCGM_13}
    assert there[GRAPHICS].startswith("580.82.07")
    assert converge(node, version="580", update=True, components=wanted).steps == ()
    assert node.installed()[GRAPHICS].startswith("580.95.05")
    assert converge(node, version="580", components=["compute"]).steps == ()
    assert node.installed().keys() == before.keys()
