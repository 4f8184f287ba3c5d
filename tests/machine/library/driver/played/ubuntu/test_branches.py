# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Another branch or version of the driver, on a played Ubuntu whose driver we hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import SECURE_BOOT

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.debs import Deb
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines
from tests.fakes.played.ubuntu.ubuntu_archive import K85, NEW, NEWER, OLD


@pytest.mark.parametrize("hold", [True, pytest.param(False, marks=pytest.mark.long)])
def test_another_branch_comes_while_the_one_before_is_held(ubuntu: Machines, hold: bool) -> None:
    node = ubuntu.driven(archive.H, K85, version="570", hold=hold)
    assert node.works()
    left = converge(node, version="580", hold=hold)
    assert left.steps == ()
    assert "570.195.03 of the driver is loaded" in left.reboot_required[0]
    assert not [name for name in (*node.installed(), *node.held()) if "-570" in name]
    assert bool(node.held()) is hold
    node.boot()
    assert node.works()
    assert converge(node, version="570", hold=hold).steps == ()
    node.boot()
    assert node.works()


def test_version_within_a_branch_takes_the_modules_that_were_built_again_for_it(
    ubuntu: Machines,
) -> None:
    node = ubuntu.driven(archive.A, K85)
    node.archive(archive.G2)
    left = converge(node, version=NEWER)
    assert left.steps == ()
    assert node.installed()[f"linux-modules-nvidia-580-server-open-{K85}"] == "6.8.0-85.85+3"
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


@pytest.mark.parametrize("driven", [{"version": NEWER}, {"version": NEWER, "hold": False}, None])
def test_older_release_comes_with_its_modules_their_signatures_and_objects(
    ubuntu: Machines, driven: dict[str, Any] | None
) -> None:
    both = (*archive.A, *archive.G2)
    node = ubuntu.driven(both, K85, **driven) if driven else ubuntu(both, K85)
    node.put(SECURE_BOOT[1:], "\x06\0\0\0\x01")
    left = converge(node, **{**(driven or {}), "version": OLD})
    assert left.steps == ()
    there = {name: one for name, one in node.installed().items() if name.endswith(K85)}
    names = (
        "signatures-nvidia",
        "objects-nvidia-580-server-open",
        "modules-nvidia-580-server-open",
    )
    assert {there[f"linux-{one}-{K85}"] for one in names} == {"6.8.0-85.85+1"}
    assert len(node.changes()) == 1
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert converge(node, version=NEWER).steps == ()
    assert node.installed()[f"linux-signatures-nvidia-{K85}"] == "6.8.0-85.85+3"


def test_version_whose_modules_are_not_built_yet_comes_with_dkms(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85)
    node.archive(archive.G)
    assert converge(node, version=NEWER).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


def test_update_moves_within_the_branch_once_modules_are_built(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85)
    node.archive(archive.G)
    assert converge(node, version="580", update=True).steps == ()
    assert node.installed()["nvidia-utils-580-server"] == archive.full(OLD)
    node.archive(archive.G2)
    converge(node, version="580")
    assert node.installed()["nvidia-utils-580-server"] == archive.full(OLD)
    assert converge(node, version="580", update=True).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


def test_version_without_modules_yet_is_told_with_what_takes_it(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85)
    node.archive(archive.G)
    known = {
        "as_of": "2999-01-01",
        "branches": {"580": {}},
        "bulletins": [{"id": "1", "date": "2026-01-01", "floors": {"580": NEWER}}],
    }
    (warning,) = planned(node, version="580", releases=known).warnings
    words = f"the sources have {NEWER} without modules for the running kernel yet: wait for them"
    assert warning.endswith(
        f"{words}, or take it with nvidia_driver_version: '{NEWER}', whose modules DKMS builds"
    )


def test_phased_version_is_there_and_can_be_asked_for(ubuntu: Machines) -> None:
    node = ubuntu(archive.PH, K85)
    node.enable()
    listed = node.run(["apt-cache", "policy", "nvidia-utils-580-server"]).out
    assert "(phased 0%)" in listed
    assert converge(node, version=NEW).steps == ()
    assert node.installed()["nvidia-utils-580-server"] == archive.full(NEW)
    assert node.works()


def test_phased_version_is_taken_where_there_is_no_other(ubuntu: Machines) -> None:
    node = ubuntu((*archive.A[:6], *archive.driver(NEW, phased=0)), K85)
    assert converge(node).steps == ()
    assert node.works()


def test_branch_that_has_become_another_is_said_to_be(ubuntu: Machines) -> None:
    node = ubuntu((*archive.A, *archive.transitional("570", OLD)), K85)
    node.enable()
    with pytest.raises(InputError, match=r"'570'.*570 has become 580"):
        planned(node, version="570")


def test_branch_that_became_another_meanwhile_stays_as_it_is(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.H, K85, version="570")
    node.archive((*archive.A, *archive.transitional("570", OLD)))
    assert converge(node, version="570").steps == ()
    assert node.works()


def newer_branch(component: str) -> tuple[Deb, ...]:
    """Return branch 595 of a component of the archive, with modules for the kernel."""
    packages = (*archive.driver("595.45.04"), *archive.prebuilt(K85, "595.45.04", "+1"))
    return tuple(dataclasses.replace(one, component=component) for one in packages)


@pytest.mark.parametrize(("component", "branch"), [("multiverse", "580"), ("restricted", "595")])
def test_branch_of_multiverse_comes_only_where_it_is_asked_for(
    ubuntu: Machines, component: str, branch: str
) -> None:
    node = ubuntu((*archive.A, *newer_branch(component)), K85)
    assert converge(node).steps == ()
    assert f"nvidia-utils-{branch}-server" in node.installed()
    assert node.works()
    assert converge(node, version="595").steps == ()
    assert "nvidia-utils-595-server" in node.installed()
    assert converge(node).steps == ()
    assert "nvidia-utils-595-server" in node.installed()


def test_branch_of_multiverse_comes_where_no_other_is_offered(ubuntu: Machines) -> None:
    node = ubuntu((archive.DKMS, *archive.kernel(K85), *newer_branch("multiverse")), K85)
    assert converge(node).steps == ()
    assert "nvidia-utils-595-server" in node.installed()


def test_what_an_earlier_version_needed_goes_with_it_and_nothing_else_does(
    ubuntu: Machines,
) -> None:
    spare = Deb("libspare1", "1", component="main")
    house = Deb("house", "1", (("Depends", "libspare1"),), component="main")
    node = ubuntu((*archive.A, spare, house), K85)
    node.apt("install", "house")
    node.apt("remove", "house")
    assert "Remv libspare1" in node.run(["apt-get", "--simulate", "autoremove"]).out
    converge(node)
    node.archive((*archive.A, *archive.G2, spare))
    firmware = f"nvidia-firmware-580-server-{OLD}"
    assert f"remove {firmware}" in planned(node, version=NEWER).steps[0].summary
    assert converge(node, version=NEWER).steps == ()
    assert firmware not in node.installed()
    assert "libspare1" in node.installed()
    assert "Remv nvidia" not in node.run(["apt-get", "--simulate", "autoremove"]).out
    node.boot()
    assert node.works()
