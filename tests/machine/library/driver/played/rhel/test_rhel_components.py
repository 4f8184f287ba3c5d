# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Components by the names that people use, on a played Rocky 9 whose dnf is genuine.

nvidia-driver-libs and what it needs: nvidia-driver.spec of NVIDIA's yum-packaging-nvidia-driver, of which egl-wayland
stands for all.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError

from tests.fakes.packages.driver_runs import converge
from tests.fakes.played import dcgm_rpms
from tests.fakes.played.rhel.played_rhel import Machines
from tests.fakes.played.rhel.rhel_archive import VERSION, modules, stage
from tests.fakes.played.rhel.rhel_systems import EL9
from tests.fakes.played.rpms import Rpm

pytestmark = [pytest.mark.long]

LIBRARIES = Rpm("nvidia-driver-libs", f"{VERSION}-1.el9", ("Requires: egl-wayland",), epoch=3)


def test_components_come_and_go_again(rhel: Machines) -> None:
    node = rhel.driven()
    offered = stage(EL9, node.repositories.folder / "epel")
    node.offer("base", (*offered["base"], Rpm("egl-wayland", "1.1.13.1-3")))
    node.offer(
        "cuda", (*offered["cuda"], LIBRARIES, *dcgm_rpms.PACKAGES), modules(EL9, offered)["cuda"]
    )
    before = node.installed()
    wanted = ["video", "graphics", "dcgm"]
    assert converge(node, components=wanted).steps == ()
    there = node.installed()
    more = {LIBRARIES.name, "egl-wayland", *dcgm_rpms.NAMES}
    assert there.keys() - before.keys() == more
    assert (there[LIBRARIES.name], there[dcgm_rpms.CORE]) == (VERSION, dcgm_rpms.VERSION)
    assert converge(node, components=wanted).steps == ()
    assert converge(node, components=["video"]).steps == ()
    assert node.installed() == before


def test_component_of_a_version_that_has_none_is_refused(rhel: Machines) -> None:
    node = rhel()
    node.switch("cuda", on=False)
    before = node.installed()
    with pytest.raises(InputError, match=r"'dcgm'.*NVIDIA's repository for RHEL family"):
        converge(node, components=["dcgm"])
    assert node.installed() == before
