# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Another branch or version of the driver, on a played Ubuntu whose driver we hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError, NodeError

from tests.fakes.packages.debian import capability, converge, reported
from tests.fakes.played.debs import Deb
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, NEW, NEWER, OLD


def of_branch(node: Ubuntu, branch: str) -> set[str]:
    return {
        name for name in node.installed() if f"-{branch}-" in name or name.endswith(f"-{branch}")
    }


@pytest.mark.parametrize("hold", [True, False])
def test_another_branch_comes_while_the_one_before_is_held(
    ubuntu: Callable[..., Ubuntu], hold: bool
) -> None:
    node = ubuntu(archive.H, K85)
    converge(node, version="570", hold=hold)
    assert node.works()
    left = converge(node, version="580", hold=hold)
    assert left.steps == ()
    assert "570.195.03 of the driver is loaded" in left.reboot_required[0]
    assert not of_branch(node, "570")
    assert {"570" in name for name in node.held()} <= {False}
    assert bool(node.held()) is hold
    node.boot()
    assert node.works()
    assert converge(node, version="570", hold=hold).steps == ()
    node.boot()
    assert node.works()


def test_branch_that_cannot_be_configured_gives_way_to_the_one_before_with_its_holds(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu(archive.H, K85)
    converge(node, version="570")
    before, held = node.installed(), node.held()
    node.archive(map(failing, archive.H))
    with pytest.raises(NodeError) as caught:
        converge(node, version="580")
    assert caught.value.details["rolled_back"] is True
    assert (node.installed(), node.held()) == (before, held)
    assert converge(node, version="570").steps == ()


def failing(one: Deb) -> Deb:
    if one.name != "nvidia-utils-580-server":
        return one
    return dataclasses.replace(one, scripts=(("postinst", "echo the test wants it >&2; exit 7\n"),))


def test_version_within_a_branch_takes_the_modules_that_were_built_again_for_it(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu(archive.A, K85)
    converge(node)
    node.archive(archive.G2)
    left = converge(node, version=NEWER)
    assert left.steps == ()
    assert node.installed()[f"linux-modules-nvidia-580-server-open-{K85}"] == "6.8.0-85.85+3"
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


def test_version_whose_modules_are_not_built_yet_comes_with_dkms(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu(archive.A, K85)
    converge(node)
    node.archive(archive.G)
    assert converge(node, version=NEWER).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


def test_update_moves_within_the_branch_once_modules_are_built(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu(archive.A, K85)
    converge(node, version="580")
    node.archive(archive.G)
    assert converge(node, version="580", update=True).steps == ()
    assert node.installed()["nvidia-utils-580-server"] == archive.full(OLD)
    node.archive(archive.G2)
    converge(node, version="580")
    assert node.installed()["nvidia-utils-580-server"] == archive.full(OLD)
    assert converge(node, version="580", update=True).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


def test_phased_version_is_there_and_can_be_asked_for(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu(archive.PH, K85)
    node.enable()
    listed = node.run(["apt-cache", "policy", "nvidia-utils-580-server"]).out
    assert "(phased 0%)" in listed
    assert converge(node, version=NEW).steps == ()
    assert node.installed()["nvidia-utils-580-server"] == archive.full(NEW)
    assert node.works()


def test_phased_version_is_taken_where_there_is_no_other(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu((*archive.A[:6], *archive.driver(NEW, phased=0)), K85)
    assert converge(node).steps == ()
    assert node.works()


def test_branch_that_has_become_another_is_said_to_be(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu((*archive.A, *archive.transitional("570", OLD)), K85)
    node.enable()
    one = capability(node, version="570", check_mode=True)
    with pytest.raises(InputError, match=r"'570'.*570 has become 580"):
        one.plan(one.observe())


def test_branch_that_became_another_meanwhile_stays_as_it_is(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu(archive.H, K85)
    converge(node, version="570")
    node.archive((*archive.A, *archive.transitional("570", OLD)))
    assert converge(node, version="570").steps == ()
    assert node.works()


def newer_branch(component: str) -> tuple[Deb, ...]:
    """Return branch 595 of a component of the archive, with modules for the kernel."""
    packages = (*archive.driver("595.45.04"), *archive.prebuilt(K85, "595.45.04", "+1"))
    return tuple(dataclasses.replace(one, component=component) for one in packages)


@pytest.mark.parametrize(("component", "branch"), [("multiverse", "580"), ("restricted", "595")])
def test_branch_of_multiverse_comes_only_where_it_is_asked_for(
    ubuntu: Callable[..., Ubuntu], component: str, branch: str
) -> None:
    node = ubuntu((*archive.A, *newer_branch(component)), K85)
    assert converge(node).steps == ()
    assert f"nvidia-utils-{branch}-server" in node.installed()
    assert node.works()
    assert converge(node, version="595").steps == ()
    assert "nvidia-utils-595-server" in node.installed()
    assert converge(node).steps == ()


def test_branch_of_multiverse_comes_where_no_other_is_offered(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu((archive.DKMS, *archive.kernel(K85), *newer_branch("multiverse")), K85)
    assert converge(node).steps == ()
    assert "nvidia-utils-595-server" in node.installed()


def test_what_an_earlier_version_needed_goes_with_it_and_nothing_else_does(
    ubuntu: Callable[..., Ubuntu],
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
    one = capability(node, version=NEWER, check_mode=True)
    assert f"remove {firmware}" in one.plan(one.observe()).steps[0].summary
    assert converge(node, version=NEWER).steps == ()
    assert firmware not in node.installed()
    assert "libspare1" in node.installed()
    assert "Remv nvidia" not in node.run(["apt-get", "--simulate", "autoremove"]).out
    node.boot()
    assert node.works()


def fabric(version: str) -> Deb:
    """Return the fabric manager of a version; packages.ubuntu.com, source fabric-manager-580."""
    return Deb("nvidia-fabricmanager-580", f"{version}-1", source="fabric-manager-580")


def test_branch_moves_with_modules_components_and_fabric_by_lists_that_were_old(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu((*archive.A, fabric(OLD)), K85)
    for name, value in (("vendor", "0x10de"), ("device", "0x22a3"), ("class", "0x068000")):
        node.put(f"sys/bus/pci/devices/0000:05:00.0/{name}", f"{value}\n")
    wanted = {"version": "580", "components": ["video"]}
    converge(node, **wanted)
    assert node.installed()["nvidia-fabricmanager-580"] == f"{OLD}-1"
    node.archive((*archive.G2, fabric(NEWER)), lists=False)
    assert converge(node, **wanted).steps == ()
    one = capability(node, **wanted, update=True, check_mode=True)
    actions = [step.action for step in one.plan(one.observe()).steps]
    assert actions.count("install") == 1
    node.apt("update")
    assert reported(node, **wanted)["newer_version"] == NEWER
    assert converge(node, **wanted, update=True).steps == ()
    there = node.installed()
    assert {there[f"{one}-580-server"] for one in ("nvidia-utils", "libnvidia-encode")} == {
        archive.full(NEWER)
    }
    assert there[f"linux-modules-nvidia-580-server-open-{K85}"] == "6.8.0-85.85+3"
    assert there["nvidia-fabricmanager-580"] == f"{NEWER}-1"
    assert converge(node, **wanted, update=True).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)
