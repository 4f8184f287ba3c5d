# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Another branch or version of the driver, on a played Ubuntu whose driver we hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import ubuntu_archive as archive
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError, NodeError
from debian import capability, converge
from debs import Deb
from played_ubuntu import Ubuntu
from ubuntu_archive import K85, NEW, NEWER, OLD


def of_branch(node: Ubuntu, branch: str) -> set[str]:
    return {
        name for name in node.installed() if f"-{branch}-" in name or name.endswith(f"-{branch}")
    }


@pytest.mark.parametrize("hold", [True, False])
def test_u1_another_branch_comes_while_the_one_before_is_held(
    ubuntu: Callable[..., Ubuntu], hold: bool
) -> None:
    node = ubuntu(archive.H, K85)
    converge(node, version="570", hold=hold)
    assert node.works()
    left = converge(node, version="580", hold=hold)
    assert left.steps == ()
    assert "570.195.03 of the driver is loaded" in left.reboot_required[0]
    # What the old branch's packages needed may stay until an autoremove.
    assert not {
        name for name in of_branch(node, "570") if "firmware" not in name and "linux-" not in name
    }
    assert {"570" in name for name in node.held()} <= {False}
    assert bool(node.held()) is hold
    node.boot()
    assert node.works()
    assert converge(node, version="570", hold=hold).steps == ()
    node.boot()
    assert node.works()


def test_u1_branch_that_cannot_be_configured_gives_way_to_the_one_before_with_its_holds(
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


def test_u3_version_within_a_branch_takes_the_modules_that_were_built_again_for_it(
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


def test_u3_version_whose_modules_are_not_built_yet_comes_with_dkms(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu(archive.A, K85)
    converge(node)
    node.archive(archive.G)
    assert converge(node, version=NEWER).steps == ()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


def test_u10_update_moves_within_the_branch_once_modules_are_built(
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


def test_u7_phased_version_is_there_and_can_be_asked_for(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu(archive.PH, K85)
    node.enable()
    listed = node.run(["apt-cache", "policy", "nvidia-utils-580-server"]).out
    assert "(phased 0%)" in listed
    assert converge(node, version=NEW).steps == ()
    assert node.installed()["nvidia-utils-580-server"] == archive.full(NEW)
    assert node.works()


def test_u7_phased_version_is_taken_where_there_is_no_other(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu((*archive.A[:6], *archive.driver(NEW, phased=0)), K85)
    assert converge(node).steps == ()
    assert node.works()


def test_u10_branch_that_has_become_another_is_said_to_be(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu((*archive.A, *archive.transitional("570", OLD)), K85)
    node.enable()
    one = capability(node, version="570", check_mode=True)
    with pytest.raises(InputError, match=r"'570'.*570 has become 580"):
        one.plan(one.observe())


def test_u10_branch_that_became_another_meanwhile_stays_as_it_is(
    ubuntu: Callable[..., Ubuntu],
) -> None:
    node = ubuntu(archive.H, K85)
    converge(node, version="570")
    node.archive((*archive.A, *archive.transitional("570", OLD)))
    assert converge(node, version="570").steps == ()
    assert node.works()
