# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Components by the names that people use, on a played SUSE whose zypper is genuine.

nvidia-gl-G06 has OpenGL, EGL and Vulkan, nvidia-compute-G06 has NVENC and NVDEC: nvidia-driver-G06.spec of openSUSE.
"""

from __future__ import annotations

from tests.fakes.packages.driver_runs import converge
from tests.fakes.played import dcgm_rpms
from tests.fakes.played.rpms import Rpm
from tests.fakes.played.suse.played_suse import Machines
from tests.fakes.played.suse.suse_archive import FOLLOWED, NEW, OLD

GRAPHICS = "nvidia-gl-G06"
NEEDS = ("Requires: nvidia-compute-G06 = {}", "Requires: libvulkan1")
MORE = (
    *(Rpm(GRAPHICS, f"{one}-1", tuple(need.format(one) for need in NEEDS)) for one in (OLD, NEW)),
    Rpm("libvulkan1", "1.3.275-1"),
    *dcgm_rpms.PACKAGES,
)


def test_components_come_at_the_drivers_version_and_go_again(suse: Machines) -> None:
    node = suse.driven({**FOLLOWED, "more": MORE}, version=OLD)
    before = node.installed()
    wanted = ["video", "graphics", "dcgm"]
    assert converge(node, version=OLD, components=wanted).steps == ()
    there = node.installed()
    assert there.keys() - before.keys() == {GRAPHICS, "libvulkan1", *dcgm_rpms.NAMES}
    assert there[GRAPHICS] == OLD
    assert converge(node, version="580", update=True, components=wanted).steps == ()
    assert node.installed()[GRAPHICS] == NEW
    assert converge(node, version="580", components=["compute"]).steps == ()
    assert node.installed().keys() == before.keys()
