# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Drivers to take over as they are found: held by their owner, behind their kernel, or mixed."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.sources.runfile import UNINSTALLER

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.debs import Deb
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, K86, NEW, NEWER, OLD

META, TRACKING = "nvidia-driver-580-open", "linux-modules-nvidia-580-open-generic"
A = (
    *archive.A,
    *archive.driver(OLD, ""),
    *archive.prebuilt(K85, OLD, "+1", ending=""),
    *archive.tracking(K85, OLD, "+1", ending=""),
)
UPDATED = (
    *A,
    *archive.driver(NEWER, ""),
    *archive.prebuilt(K85, NEWER, "+3", ending=""),
    *archive.tracking(K85, NEWER, "+3", ending=""),
)
# Kernel 86 with modules for a newer driver, and the package that tracks it.
AHEAD: tuple[Deb, ...] = (
    *(archive.DKMS, *archive.kernel(K85, newest=False), *archive.kernel(K86)),
    *(*archive.driver(NEW, ""), *archive.prebuilt(K86, NEW, ending="")),
    *archive.tracking(K86, NEW, ending=""),
)


@pytest.fixture
def node(ubuntu: Machines) -> Ubuntu:
    """Return a machine with a desktop's driver that works."""
    return ubuntu.by_hand(A, K85, META, TRACKING, "libnvidia-gl-580")


def test_holds_of_the_owner_stay_and_stand_in_the_way_of_another_version(node: Ubuntu) -> None:
    node.run(["apt-mark", "hold", META])
    before = node.installed()
    assert converge(node, adopt=True).steps == ()
    node.archive(UPDATED)
    with pytest.raises(NodeError, match=rf"{META}.* on hold.*apt-mark unhold {META}"):
        planned(node, adopt=True, version=NEWER)
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, {META})


def test_kernel_that_ran_ahead_of_its_modules_gets_them(node: Ubuntu) -> None:
    """As users report it: the kernel came by night, its modules and the tracking package did not."""
    node.archive(AHEAD)
    node.apt("install", f"linux-image-{K86}")
    node.boot()
    assert node.loaded() == ""
    left = converge(node, adopt=True)
    assert (left.steps, left.reboot_required) == ((), ())
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    assert {META, TRACKING} <= node.held()
    assert node.installed()[TRACKING] == archive.package_version(K86)
    assert "dkms" not in node.installed()
    there = node.installed()
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (there, set())


def test_adoption_whose_packages_cannot_be_fetched_leaves_no_trace(node: Ubuntu) -> None:
    node.archive(UPDATED, gone=["nvidia-utils-580"])
    before = node.installed()
    with pytest.raises(NodeError, match="nvidia-utils-580"):
        converge(node, adopt=True, version=NEWER)
    assert (node.installed(), node.held()) == (before, set())
    assert not node.exists(RECORD)
    with pytest.raises(NodeError, match="adopt: true"):
        converge(node)
    node.archive(UPDATED)
    assert converge(node, adopt=True, version=NEWER).steps == ()


def test_uninstaller_does_not_run_where_packages_are_there_as_well(node: Ubuntu) -> None:
    node.put(UNINSTALLER[1:], "")
    assert converge(node, adopt=True).steps == ()
    assert UNINSTALLER not in [words[0] for words in node.ran]
    assert node.works()


def test_adoption_goes_on_where_the_mirror_has_moved_on_meanwhile(node: Ubuntu) -> None:
    node.archive(UPDATED, gone=["nvidia-utils-580"])
    node.mirror.publish(UPDATED)
    run = node.run

    def answer(argv, **values):  # type: ignore[no-untyped-def]
        done = run(argv, **values)
        # What apt says of a server; the mirror here is a folder.
        return done._replace(err=done.err.replace("File not found", "404  Not Found"))

    node.run = answer  # type: ignore[method-assign]
    assert converge(node, adopt=True, version=NEWER).steps == ()
    node.run = run  # type: ignore[method-assign]
    converge(node, state="absent")
    assert node.installed()[META] == archive.full(OLD)


MODULES = f"linux-modules-nvidia-580-server-open-{K85}"
PARTS = ("nvidia-utils", "libnvidia-compute", "libnvidia-cfg1", "nvidia-compute-utils")
NEXT = "595.71.05"
OFFERED = (*archive.A, *archive.driver(NEXT), *archive.prebuilt(K85, NEXT, "+4"))


@pytest.mark.parametrize("options", [{}, {"kernel_modules": "open"}], ids=["auto", "open"])
@pytest.mark.parametrize("held", [True, False], ids=["held", "never seen"])
def test_another_branch_over_packages_of_an_owner_is_refused_with_what_helps(
    ubuntu: Machines, held: bool, options: dict[str, str]
) -> None:
    node = ubuntu.by_hand(archive.A, K85, MODULES, *(f"{name}-580-server" for name in PARTS))
    if held:
        converge(node, version="580")
    before = node.installed()
    node.archive(OFFERED)
    for bring in (planned, converge):
        with pytest.raises(
            NodeError, match=r"libnvidia-compute-580-server.*adopt: true"
        ) as refused:
            bring(node, version="595", **options)
        assert "kernel_modules: open" not in str(refused.value)
    assert node.installed() == before
    assert converge(node, version="595", adopt=True, **options).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEXT} open", True)


@pytest.mark.parametrize("held", [True, False], ids=["held", "never seen"])
@pytest.mark.parametrize(
    "modules", ["linux-modules-nvidia-580-server-generic", "nvidia-dkms-580-server"]
)
def test_other_type_of_kernel_modules_beside_a_metapackage_is_refused_with_what_helps(
    ubuntu: Machines, modules: str, held: bool
) -> None:
    node = ubuntu.by_hand(A, K85, "nvidia-driver-580-server", modules)
    if held:
        converge(node)
    before = node.installed()
    for bring in (planned, converge):
        with pytest.raises(NodeError, match="adopt: true"):
            bring(node, kernel_modules="open")
    assert node.installed() == before
    assert converge(node, kernel_modules="open", adopt=True).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
