# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What zypper left in the middle on a played SUSE: scripts that fail, files that a mirror lacks, killed runs."""

from __future__ import annotations

import dataclasses
import re

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rpms import FAILS
from tests.fakes.played.suse import suse_archive as archive
from tests.fakes.played.suse.played_suse import Machines
from tests.fakes.played.suse.suse_archive import DESKTOPS, GA, NEW, OLD, SP7, signed, user_space

LONG = pytest.mark.long
CUDA = "nvidia-open-driver-G06-signed-cuda-kmp-default"
DESKTOP = "nvidia-open-driver-G06-signed-kmp-default"


@pytest.mark.parametrize("status", [0, pytest.param(107, marks=LONG)])
def test_script_that_fails_is_a_warning_where_all_is_installed(
    suse: Machines, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zypper of this machine ends with 0 then, later ones with 107."""
    failing = tuple(
        dataclasses.replace(one, scripts=(("posttrans", FAILS),))
        if one.name == "nvidia-modprobe"
        else one
        for one in user_space(OLD)
    )
    node = suse({**archive.fresh(), "cuda": failing})
    assert planned(node).steps
    run = node.run

    def report(argv, **values):  # type: ignore[no-untyped-def]
        done = run(argv, **values)
        is_change = argv[0] == "zypper" and "install" in argv and "--dry-run" not in argv
        return done._replace(rc=107) if is_change and status else done

    monkeypatch.setattr(node, "run", report)
    plan = converge(node, update=True)
    assert plan.steps == ()
    (warning,) = (text for text in plan.warnings if "script" in text)
    assert re.search("but a script of a package failed: .*wants this package to fail", warning)
    monkeypatch.setattr(node, "run", run)
    assert converge(node).steps == ()
    assert converge(node, state="absent").steps == ()
    assert set(node.installed()) == {"kernel-default"}


def test_packages_that_a_mirror_lacks_leave_the_node_as_it_was(suse: Machines) -> None:
    """Its index is newer than its packages, which only a download shows."""
    node = suse.driven(archive.fresh())
    node.archive(archive.FOLLOWED)
    before = node.installed(), node.locks()
    node.channels.publish({"all": archive.FOLLOWED["cuda"]})
    mirror = node.channels.folder / "lacking"
    mirror.mkdir()
    for path in (node.channels.folder / "all").iterdir():
        if path.name != f"nvidia-common-G06-{NEW}-1.x86_64.rpm":
            (mirror / path.name).symlink_to(path.resolve())
    node.channels.name("cuda", mirror)
    with pytest.raises(NodeError, match=rf"(?s)nvidia-common-G06-{NEW}.*not found on medium"):
        converge(node, update=True)
    assert (node.installed(), node.locks()) == before
    assert converge(node).steps == ()
    assert converge(node, state="absent").steps == ()


class Killed(BaseException):
    """The process ends where it is."""


@pytest.mark.parametrize(
    "verb",
    ["lacking", pytest.param("install", marks=LONG), pytest.param("addlock", marks=LONG)],
)
def test_absent_follows_a_run_that_was_killed(
    suse: Machines, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = suse(archive.fresh())
    run = node.run

    def end(argv, **values):  # type: ignore[no-untyped-def]
        if (
            argv[0] == "zypper"
            and (verb if verb != "lacking" else "install") in argv
            and "--dry-run" not in argv
        ):
            if verb == "lacking":
                run(["zypper", "--non-interactive", "install", "nvidia-modprobe"])
            raise Killed
        return run(argv, **values)

    monkeypatch.setattr(node, "run", end)
    with pytest.raises(Killed):
        converge(node)
    monkeypatch.setattr(node, "run", run)
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert (set(node.installed()), node.held()) == ({"kernel-default"}, set())


@pytest.mark.parametrize("verb", ["removelock", pytest.param("remove", marks=LONG)])
def test_absent_follows_an_absent_that_was_killed(
    suse: Machines, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = suse.driven(archive.fresh())
    run = node.run

    def end(argv, **values):  # type: ignore[no-untyped-def]
        done = run(argv, **values)
        if argv[0] == "zypper" and verb in argv and "--dry-run" not in argv:
            raise Killed
        return done

    monkeypatch.setattr(node, "run", end)
    with pytest.raises(Killed):
        converge(node, state="absent")
    monkeypatch.setattr(node, "run", run)
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert (set(node.installed()), node.held()) == ({"kernel-default"}, set())


def test_absent_follows_an_update_that_was_killed(suse: Machines) -> None:
    """It leaves packages in two versions."""
    node = suse.driven(archive.FOLLOWED, version=OLD)
    for one in user_space(NEW)[:3]:
        node.run(["rpm", "--install", "--nodeps", str(one.path)])
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert (set(node.installed()), node.held()) == ({"kernel-default"}, set())


def test_absent_removes_the_driver_where_the_modules_of_before_are_gone(suse: Machines) -> None:
    """SUSE's channels have moved on from the build that the hardware had chosen."""
    node = suse(archive.fresh())
    node.zypper("install", DESKTOP)
    assert converge(node).steps == ()
    later = signed(SP7, OLD, GA, cuda=False)
    channel = tuple(one for one in archive.fresh()["sle"] if DESKTOPS not in one.version)
    node.archive({**archive.fresh(), "sle": (*channel, later)})
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert (set(node.installed()), node.held()) == ({"kernel-default"}, set())


@LONG
@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("part", ["before", "half", "after"])
def test_absent_follows_an_exchange_that_was_killed(
    suse: Machines, state: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction takes the modules that the hardware had chosen, or puts them back."""
    node = suse(archive.fresh())
    node.zypper("install", DESKTOP)
    before = node.installed()
    if state == "absent":
        assert converge(node).steps == ()
    run = node.run

    def end(argv, **values):  # type: ignore[no-untyped-def]
        if argv[0] == "zypper" and "install" in argv and "--dry-run" not in argv:
            if part == "half":
                run(["rpm", "--erase", "--nodeps", DESKTOP if state == "present" else CUDA])
            elif part == "after":
                run(argv, **values)
            raise Killed
        return run(argv, **values)

    monkeypatch.setattr(node, "run", end)
    with pytest.raises(Killed):
        converge(node, state=state)
    monkeypatch.setattr(node, "run", run)
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert (node.installed(), node.held()) == (before, set())
