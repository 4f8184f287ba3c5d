# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What holds on the played Ubuntu 24.04, on 22.04 and 26.04 and with the kernels of enablement, clouds and NVIDIA."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import SECURE_BOOT

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.apt_machine import TOOLS
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, NEW, NEWER, OLD
from tests.fakes.played.ubuntu.ubuntu_releases import FLAVOURS, JAMMY, NOBLE_HWE, RESOLUTE, Release

pytestmark = [pytest.mark.long]
# The other tests of this folder play 24.04 with its generic kernel.
EACH = pytest.mark.parametrize("release", [JAMMY, RESOLUTE, *FLAVOURS], ids=str)
ALL = pytest.mark.parametrize("release", [JAMMY, RESOLUTE], ids=str)
BOUNDS = pytest.mark.parametrize("upper", [False, True], ids=["lower", "both"])
DESKTOP = (
    *archive.driver(OLD, ""),
    *archive.prebuilt(K85, OLD, "+1", ending=""),
    *archive.tracking(K85, OLD, "+1", ending=""),
)
LATER = "595.45.04"


@pytest.fixture
def played(place: Path) -> Callable[..., Ubuntu]:
    """Return a maker of machines of a release, whose archive has packages of the played 24.04 by its names."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)

    def make(release: Release, packages: tuple[archive.Deb, ...]) -> Ubuntu:
        machines = Machines(Ubuntu, place, release.codename)
        return machines(release.of(packages), release.older, flavour=release.flavour)

    return make


@EACH
def test_fresh_machine_gets_signed_modules_follows_its_kernel_and_goes_back(
    played: Callable[..., Ubuntu], release: Release
) -> None:
    node = played(release, archive.A)
    before = node.installed()
    node.put(SECURE_BOOT[1:], "\x06\0\0\0\x01")
    assert converge(node, hold=False).steps == ()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    tracking = f"linux-modules-nvidia-580-server-open-{release.flavour}"
    assert tracking in node.installed()
    node.archive(release.of(archive.B))
    node.unattended()
    assert node.boot() == release.newer
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    assert converge(node, hold=False).steps == ()
    converge(node, state="absent")
    assert not [name for name in node.installed() if "nvidia-" in name and "linux-" not in name]
    assert set(before) <= set(node.installed())


@BOUNDS
@ALL
def test_older_kernel_gets_a_driver_that_matches_itself(
    played: Callable[..., Ubuntu], release: Release, upper: bool
) -> None:
    node = played(release, archive.stage_b(upper=upper))
    assert converge(node, version="580").steps == ()
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    assert node.boot() == release.newer
    assert node.works()


@BOUNDS
@ALL
def test_new_kernel_moves_the_driver(
    played: Callable[..., Ubuntu], release: Release, upper: bool
) -> None:
    node = played(release, archive.A)
    converge(node, version="580")
    node.archive(release.of(archive.stage_b(upper=upper)))
    node.apt("install", f"linux-{release.flavour}")
    assert node.boot() == release.newer
    assert converge(node, version="580").steps == ()
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    assert "dkms" not in node.installed()


@ALL
def test_kernel_waits_for_the_driver(played: Callable[..., Ubuntu], release: Release) -> None:
    node = played(release, archive.A)
    converge(node, hold_kernel=True)
    assert f"linux-image-{release.flavour}" in node.held()
    node.archive(release.of(archive.B))
    node.unattended()
    assert node.boot() == release.older
    assert node.works()


@ALL
def test_modules_that_were_built_again_are_taken(
    played: Callable[..., Ubuntu], release: Release
) -> None:
    node = played(release, archive.A)
    converge(node)
    node.archive(release.of(archive.G2))
    assert converge(node, version=NEWER).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


@ALL
def test_branch_changes_up_and_down(played: Callable[..., Ubuntu], release: Release) -> None:
    later = (*archive.driver(LATER), *archive.prebuilt(K85, LATER, "+1"))
    node = played(release, (*archive.A, *later))
    converge(node, version="580")
    for version in (LATER, OLD):
        assert converge(node, version=version.split(".", maxsplit=1)[0]).steps == ()
        node.boot()
        assert (node.loaded(), node.works()) == (f"{version} open", True)


@pytest.mark.parametrize("release", [JAMMY, RESOLUTE, NOBLE_HWE], ids=str)
def test_desktop_is_taken_over_and_given_back(
    played: Callable[..., Ubuntu], release: Release
) -> None:
    node = played(release, (*archive.A, *DESKTOP))
    node.enable()
    tracking = f"linux-modules-nvidia-580-open-{release.flavour}"
    node.apt("install", "nvidia-driver-580-open", tracking)
    node.boot()
    before = node.installed()
    assert converge(node, adopt=True).steps == ()
    assert {"nvidia-driver-580-open", tracking} <= node.held()
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, set())
    assert node.works()


def test_both_branches_of_2604_are_had(played: Callable[..., Ubuntu]) -> None:
    later = (*archive.driver(LATER), *archive.prebuilt(K85, LATER, "+1"))
    node = played(RESOLUTE, (*archive.A, *later))
    assert planned(node, version="595").steps
    assert converge(node).steps == ()
    assert (node.loaded(), node.works()) == (f"{LATER} open", True)
