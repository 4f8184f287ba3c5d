# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Point releases and generations on a played SUSE, and a driver that somebody else installed."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError

from tests.fakes.packages.driver_runs import capability, converge, reported
from tests.fakes.played.suse import suse_archive as archive
from tests.fakes.played.suse.played_suse import Machines, Suse
from tests.fakes.played.suse.suse_archive import NEW, NEXT, OLD

KMP, KMP7 = (f"nvidia-open-driver-{one}-signed-cuda-kmp-default" for one in ("G06", "G07"))
BY_HAND = ("nvidia-compute-utils-G06", "nvidia-persistenced")


def versions(node: Suse) -> set[str]:
    """Return the versions of all that belongs to the driver."""
    found = node.installed()
    # Any nvidia-modprobe that is not older will do.
    names = [one for one in found if one.startswith("nvidia-") and one != "nvidia-modprobe"]
    return {found[one].split("_k")[0] for one in names}


def test_user_space_that_is_ahead_of_suses_modules_waits_for_them(
    suse: Machines,
) -> None:
    node = suse.driven(archive.fresh())
    node.archive(archive.AHEAD)
    assert converge(node, update=True).steps == ()
    assert versions(node) == {OLD}
    one = capability(node, version=NEW, check_mode=True)
    with pytest.raises(InputError, match=rf"'{NEW}' .*{KMP}.*: {OLD}"):
        one.plan(one.observe())
    node.archive(archive.FOLLOWED)
    assert converge(node).steps == ()
    assert versions(node) == {OLD}
    left = converge(node, update=True)
    assert versions(node) == {NEW}
    assert f"version {OLD} of the driver is loaded" in left.reboot_required[0]
    assert {KMP, "nvidia-compute-G06"} <= node.held()
    node.boot()
    assert node.works()


def test_fresh_node_takes_the_version_that_both_have(suse: Machines) -> None:
    node = suse(archive.AHEAD)
    assert converge(node).steps == ()
    assert (versions(node), node.works()) == ({OLD}, True)


@pytest.mark.parametrize("check_mode", [False, pytest.param(True, marks=pytest.mark.long)])
def test_next_generation_takes_the_place_of_the_one_before_at_once(
    suse: Machines, check_mode: bool
) -> None:
    node = suse(archive.NEXT_GENERATION)
    converge(node, version="580")
    before = node.installed()
    if check_mode:
        one = capability(node, version="595", check_mode=True)
        found = one.plan(one.observe())
        assert (
            "nvidia-common-G06, nvidia-compute-G06, nvidia-compute-utils-G06"
            in found.steps[0].summary
        )
        assert node.installed() == before
        return
    node.ran.clear()
    converge(node, version="595")
    changes = [words for words in node.ran if "install" in words and "--dry-run" not in words]
    assert len(changes) == 1
    assert (versions(node), KMP7 in node.held()) == ({NEXT}, True)
    assert not [one for one in (*node.installed(), *node.held()) if "-G06" in one]
    node.boot()
    assert node.works()
    converge(node, version="580")
    assert (versions(node), KMP in node.held()) == ({OLD}, True)
    node.boot()
    assert node.works()
    converge(node, state="absent")
    assert (set(node.installed()), node.held()) == ({"kernel-default"}, set())


def test_generation_that_somebody_else_installed_does_not_go_unasked(
    suse: Machines,
) -> None:
    node = suse(archive.fresh())
    node.zypper("install", KMP, *BY_HAND)
    node.boot()
    node.archive(archive.NEXT_GENERATION)
    before = node.installed()
    one = capability(node, version="595", check_mode=True)
    with pytest.raises(NodeError, match=r"remove .*nvidia-common-G06.*keep .*source: preinstalled"):
        one.plan(one.observe())
    assert converge(node).steps == ()
    assert node.installed() == before


@pytest.mark.parametrize("other", [True, pytest.param(False, marks=pytest.mark.long)])
def test_headers_of_the_running_kernel_come_before_modules_that_dkms_builds(
    suse: Machines, other: bool
) -> None:
    node = suse(archive.BUILT)
    if other:  # somebody has those of another kernel
        node.zypper("install", f"kernel-default-devel={archive.K16}.1")
    before = node.devel()
    one = capability(node, version=NEW, check_mode=True)
    installs = [step for step in one.plan(one.observe()).steps if step.action == "install"]
    assert f"kernel-default-devel={archive.K3} ({archive.K3}.1)" in installs[0].summary
    assert "nvidia-open-driver-G06" in installs[1].params["packages"]
    left = converge(node, version=NEW)
    assert (left.steps, left.warnings) == ((), ())
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    assert node.devel() == before | {f"{archive.K3}.1"}
    converge(node, state="absent")
    assert node.devel() >= before
    assert not any(one.startswith("nvidia") for one in node.installed())


def test_headers_that_nobody_offers_are_refused_on_suse(suse: Machines) -> None:
    stage = dict(archive.BUILT)
    stage["sle"] = tuple(one for one in stage["sle"] if "devel" not in one.name)
    node = suse(stage)
    one = capability(node, version=NEW, check_mode=True)
    with pytest.raises(NodeError, match=f"DKMS can't build.*kernel-default-devel={archive.K3}"):
        one.plan(one.observe())


def test_dkms_that_nobody_offers_is_named_with_zyppers_words(
    suse: Machines,
) -> None:
    stage = {**archive.BUILT, "hub": ()}
    node = suse(stage)
    one = capability(node, version=NEW, check_mode=True)
    with pytest.raises(NodeError, match=r"(?s)nothing provides dkms needed by nvidia-open-driver"):
        one.plan(one.observe())


def test_module_type_of_another_stays_on_suse(suse: Machines) -> None:
    node = suse(archive.BOTH_TYPES)
    node.zypper("install", "nvidia-driver-G06-kmp-default", *BY_HAND)
    node.boot()
    before = node.installed()
    assert node.loaded() == f"{OLD} proprietary"
    assert converge(node).steps == ()
    assert node.installed() == before
    assert "nvidia-driver-G06-kmp-default" in node.held()
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, set())
    node.boot()
    assert node.works()


def test_module_type_that_is_named_takes_the_place_of_anothers_and_gives_it_back(
    suse: Machines,
) -> None:
    node = suse(archive.BOTH_TYPES)
    node.zypper("install", "nvidia-driver-G06-kmp-default", *BY_HAND)
    node.boot()
    before = node.installed()
    assert converge(node, kernel_modules="open").steps == ()
    assert "nvidia-driver-G06-kmp-default" not in node.installed()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert converge(node, kernel_modules="open").steps == ()
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, set())
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} proprietary", True)


def test_version_that_the_channels_have_dropped_stays_and_works(
    suse: Machines,
) -> None:
    node = suse.driven(archive.fresh())
    node.archive(archive.MOVED_ON)
    assert converge(node).steps == ()
    assert (versions(node), node.works()) == ({OLD}, True)
    assert converge(node, version="580").steps == ()
    left = converge(node, version="580", update=True)
    assert (left.steps, versions(node)) == ((), {NEW})


def test_branch_moves_by_lists_that_were_old(suse: Machines) -> None:
    node = suse(archive.fresh())
    converge(node, version="580")
    node.archive(archive.FOLLOWED, lists=False)
    assert converge(node, version="580").steps == ()
    one = capability(node, version="580", update=True, check_mode=True)
    assert [step.action for step in one.plan(one.observe()).steps].count("install") == 1
    node.zypper("refresh")
    assert reported(node, version=OLD)["newer_version"] == NEW
    assert converge(node, version="580", update=True).steps == ()
    assert versions(node) == {NEW}
    assert {KMP, "nvidia-compute-G06"} <= node.held()
    assert converge(node, version="580", update=True).steps == ()
    node.boot()
    assert node.works()
