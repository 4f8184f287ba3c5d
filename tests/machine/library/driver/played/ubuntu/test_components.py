# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Components by the names that people use, on a played Ubuntu whose apt is genuine.

DCGM's packages, with their relations and the conflict with those of DCGM 3: cmake/packaging.cmake of NVIDIA's DCGM 4.6.
That the proprietary ones need the core of their own version is an assumption; their names are in the lists of
NVIDIA's repositories. NVIDIA's installation guide has users install -core, -cudaN and -proprietary of one version.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.debs import Deb
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines
from tests.fakes.played.ubuntu.ubuntu_archive import K85, OLD

VIDEO = {"libnvidia-decode-580-server", "libnvidia-encode-580-server"}
GRAPHICS = {"libnvidia-gl-580-server"}
DCGM = "datacenter-gpu-manager-4"
DCGM_13 = {f"{DCGM}-{one}" for one in ("core", "cuda13", "proprietary", "proprietary-cuda13")}


def dcgm(version: str) -> tuple[Deb, ...]:
    full = f"1:{version}-1"
    core = f"{DCGM}-core (= {full})"

    def of(name: str, depends: str, *more: tuple[str, str]) -> Deb:
        return Deb(f"{DCGM}-{name}", full, (("Depends", depends), *more), component="main")

    found = [of("core", "lshw", ("Conflicts", "datacenter-gpu-manager")), of("proprietary", core)]
    for one in ("11", "12", "13"):
        found.append(of(f"cuda{one}", core, ("Provides", f"{DCGM} (= {full})")))
        found.append(of(f"proprietary-cuda{one}", f"{DCGM}-proprietary (= {full})"))
    return (*found, Deb("lshw", "02.19", component="main", suite="noble"))


def test_components_bring_their_packages_at_the_drivers_version(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    wanted = ["compute", "video", "graphics"]
    assert converge(node, components=wanted).steps == ()
    there = node.installed()
    assert {there[name] for name in VIDEO | GRAPHICS} == {archive.full(OLD)}
    assert "nvidia-utils-580-server" in there  # what computing needs comes along
    assert node.held() >= VIDEO | GRAPHICS
    before = node.files()
    assert converge(node, components=wanted).steps == ()
    assert node.files() == before


def test_component_that_is_added_later_comes_alone_in_one_transaction(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85)
    steps = {step.action: step.params for step in planned(node, components=["video"]).steps}
    assert steps["install"]["packages"].keys() == VIDEO
    assert [*steps] == ["install", "hold"]
    converge(node, components=["video"])
    assert node.held() >= VIDEO


def test_component_that_is_no_longer_wanted_goes_with_what_it_brought(ubuntu: Machines) -> None:
    node = ubuntu.driven((*archive.A, *dcgm("4.5.2")), K85)
    before = node.installed()
    converge(node, components=["video", "dcgm"])
    assert node.installed().keys() - before.keys() == VIDEO | DCGM_13 | {"lshw"}
    left = converge(node, components=["compute"])
    assert left.steps == ()
    assert node.installed() == before
    assert not node.held() & (VIDEO | DCGM_13)
    # What the user installs of it now is the user's.
    node.apt("install", "libnvidia-encode-580-server")
    assert converge(node).steps == ()
    assert "libnvidia-encode-580-server" in node.installed()


def test_what_somebody_else_has_of_a_component_stays(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85)
    node.apt("install", "libnvidia-encode-580-server")
    converge(node, components=["video"])
    converge(node, components=[])
    assert node.installed().keys() & VIDEO == {"libnvidia-encode-580-server"}


def test_components_follow_the_driver_to_another_branch_and_go_with_it(ubuntu: Machines) -> None:
    node = ubuntu((*archive.H, *dcgm("4.5.2")), K85)
    before = node.installed()
    wanted = ["video", "dcgm"]
    converge(node, version="570", components=wanted)
    assert f"{DCGM}-cuda12" in node.installed()
    node.archive((*archive.H, *dcgm("4.6.0")))
    assert converge(node, version="580", components=wanted).steps == ()
    there = node.installed()
    assert not [name for name in there if "code-570" in name or name.endswith("cuda12")]
    assert {there[name] for name in DCGM_13} == {"1:4.6.0-1"}
    assert {there[name] for name in VIDEO} == {archive.full(OLD)}
    assert converge(node, state="absent").steps == ()
    assert node.installed() == before


def test_package_names_are_mixed_in_with_components_and_alone_replace_them(
    ubuntu: Machines,
) -> None:
    node = ubuntu((*archive.A, Deb("nvtop", "3.0.2-1", component="main")), K85)
    converge(node, components=["graphics", "nvtop"])
    assert node.installed().keys() >= GRAPHICS | {"nvtop", "nvidia-utils-580-server"}
    other = ["nvidia-compute-utils-580-server"]
    assert converge(node, components=other).steps == ()
    assert not node.installed().keys() & GRAPHICS
    assert "nvtop" in node.installed()  # only components are taken away again


def test_component_that_no_source_has_is_refused_by_name(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    before = node.installed(), node.held(), node.listdir("/etc/apt/sources.list.d")
    for check_mode in (True, False):
        with pytest.raises(InputError, match=r"'dcgm'.*NVIDIA's repository for Ubuntu") as caught:
            converge(node, components=["dcgm"], check_mode=check_mode)
        assert "source: repository" in caught.value.hint
        assert before == (node.installed(), node.held(), node.listdir("/etc/apt/sources.list.d"))
