# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What zypper refuses is refused before anything is changed, in check mode too, with its words and whose lock it is."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError

from tests.fakes.packages.driver_runs import capability, converge
from tests.fakes.played.suse import suse_archive as archive
from tests.fakes.played.suse.played_suse import Machines
from tests.fakes.played.suse.suse_archive import NEW, OLD

LONG = pytest.mark.long


@pytest.mark.parametrize("check_mode", [False, pytest.param(True, marks=LONG)])
def test_what_zypper_refuses_is_refused_in_the_plan_with_its_words(
    suse: Machines, check_mode: bool
) -> None:
    node = suse(archive.REFUSED)
    before = node.files()
    one = capability(node, check_mode=check_mode)
    with pytest.raises(NodeError, match=r"(?s)zypper finds no way.*nothing provides") as caught:
        one.plan(one.observe())
    words = f"nothing provides nvidia-modprobe >= {OLD} needed by nvidia-common-G06-{OLD}-1.x86_64"
    assert caught.value.cause.count(words) == 1
    assert node.files() == before


@pytest.mark.parametrize("check_mode", [False, pytest.param(True, marks=LONG)])
def test_zypper_is_asked_also_where_our_locks_are_set(suse: Machines, check_mode: bool) -> None:
    node = suse.driven(archive.fresh())
    node.archive(archive.FOLLOWED_IN_PART)
    before = node.files()
    one = capability(node, update=True, check_mode=check_mode)
    with pytest.raises(NodeError, match=rf"nothing provides nvidia-modprobe >= {NEW}"):
        one.plan(one.observe())
    assert node.files() == before
    node.archive(archive.FOLLOWED)
    before = node.files()
    one = capability(node, update=True, check_mode=True)
    assert NEW in one.plan(one.observe()).steps[0].summary
    assert node.files() == before


def test_locks_of_ours_are_there_while_zypper_is_at_work(suse: Machines) -> None:
    node = suse.driven(archive.fresh())
    before = node.locks()
    node.archive(archive.FOLLOWED)
    node.ran.clear()
    converge(node, update=True)
    assert node.installed()["nvidia-compute-G06"] == NEW
    assert node.locks() == before
    assert not [words for words in node.ran if "removelock" in words]
    assert not [one for one in node.listdir("/run") if one.startswith("gpu-node")]


def test_zypper_keeps_what_its_configuration_says(suse: Machines) -> None:
    """Kernels are multiversion by zypp.conf alone: an asking without it would replace the running one."""
    node = suse.driven(archive.fresh())
    config = node.read("/etc/zypp/zypp.conf") or ""
    node.remove("/etc/zypp/zypp.conf")
    node.put("usr/etc/zypp/zypp.conf", "[main]\nmultiversion = nonsense\n")
    node.put("etc/zypp/zypp.conf.d/50-kernel.conf", config)
    node.archive(archive.REBUILT_NEWER)
    converge(node, version=NEW)
    assert len(node.listdir("/boot")) == 2


@pytest.mark.parametrize(
    ("lock", "named"),
    [
        (("nvidia-modprobe",), "nvidia-modprobe"),
        pytest.param(("nvidia-mod*",), "nvidia-mod*", marks=LONG),
        pytest.param(("--repo", "cuda", "nvidia-common-G06"), "nvidia-common-G06", marks=LONG),
        pytest.param(("nvidia-open-driver-*",), "nvidia-open-driver-*", marks=LONG),
        pytest.param(("nvidia-persistenced > 580.90",), "nvidia-persistenced", marks=LONG),
    ],
)
@pytest.mark.parametrize("installed", [True, pytest.param(False, marks=LONG)])
def test_lock_of_another_that_is_in_the_way_is_named(
    suse: Machines, lock: tuple[str, ...], named: str, installed: bool
) -> None:
    node = suse(archive.fresh())
    if installed:
        converge(node)
        node.archive(archive.FOLLOWED)
    node.zypper("addlock", *lock)
    before = node.files()
    for check_mode in (True, False):
        one = capability(node, update=True, check_mode=check_mode)
        with pytest.raises(NodeError) as caught:
            one.plan(one.observe())
        assert f"while {named} is locked" in str(caught.value)
        assert "zypper removelock" in str(caught.value)
        assert "apt-mark" not in str(caught.value)
    assert node.files() == before


def test_lock_of_another_on_a_part_says_how_zypper_removes_it(
    suse: Machines,
) -> None:
    node = suse(archive.fresh())
    node.zypper("addlock", "nvidia-compute-G06")
    with pytest.raises(
        NodeError, match=r"nvidia-compute-G06.*zypper removelock nvidia-compute-G06"
    ):
        converge(node)


@pytest.mark.parametrize("check_mode", [False, pytest.param(True, marks=LONG)])
def test_lock_of_another_on_what_is_to_go_is_refused_before_anything_changes(
    suse: Machines, check_mode: bool
) -> None:
    node = suse.driven(archive.fresh())
    node.zypper("addlock", "nvidia-c*")
    before = node.files()
    one = capability(node, state="absent", check_mode=check_mode)
    with pytest.raises(
        NodeError, match=r"(?s)no way to remove the driver while nvidia-c\* is locked"
    ):
        one.plan(one.observe())
    assert node.files() == before
    node.zypper("removelock", "nvidia-c*")
    converge(node, state="absent")
    assert (set(node.installed()), node.held()) == ({"kernel-default"}, set())


def test_lock_of_another_stays_after_absent(suse: Machines) -> None:
    node = suse(archive.fresh())
    node.zypper("addlock", "vim", "kernel-*")
    before = node.locks()
    converge(node)
    converge(node, state="absent")
    assert node.locks() == before


def test_repository_that_is_off_is_named(suse: Machines) -> None:
    node = suse(archive.SPLIT)
    path = "etc/zypp/repos.d/tools.repo"
    node.put(path, (node.read(f"/{path}") or "").replace("enabled=1", "enabled=0"))
    one = capability(node, check_mode=True)
    with pytest.raises(
        NodeError, match=r"(?s)nothing provides nvidia-modprobe.*disabled .*: tools"
    ):
        one.plan(one.observe())


def test_preview_finds_a_version_that_only_fresh_lists_have_on_suse(
    suse: Machines,
) -> None:
    node = suse.driven(archive.fresh())
    node.archive(archive.FOLLOWED, lists=False)
    before = node.files()
    one = capability(node, version=NEW, check_mode=True)
    (install, *_rest) = one.plan(one.observe()).steps
    assert f"{NEW}-1" in install.summary
    assert node.files() == before
    other = capability(node, version="580.1.1", check_mode=True)
    with pytest.raises(InputError, match=rf"'580\.1\.1' .*: {NEW}, {OLD}"):
        other.plan(other.observe())


@pytest.mark.parametrize("refresh", [0, pytest.param(1, marks=LONG)])
def test_preview_leaves_the_lists_as_they_are(suse: Machines, refresh: int) -> None:
    node = suse(archive.fresh())
    for name in ("sle", "cuda"):
        path = f"etc/zypp/repos.d/{name}.repo"
        text = (node.read(f"/{path}") or "").replace("autorefresh=0", f"autorefresh={refresh}")
        node.put(path, text)
    node.archive(archive.FOLLOWED, lists=False)
    before = node.files()
    one = capability(node, check_mode=True)
    assert one.plan(one.observe()).steps
    assert node.files() == before


def test_version_that_is_gone_since_the_lists_were_fetched_is_found_anew(
    suse: Machines,
) -> None:
    node = suse(archive.fresh())
    node.archive(archive.MOVED_ON, lists=False)
    assert converge(node).steps == ()
    assert node.installed()["nvidia-compute-G06"] == NEW
