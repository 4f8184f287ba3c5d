# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Repositories that zypper can't read stop nothing, are named, and what needs no repository asks for none."""

from __future__ import annotations

import shutil

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.suse import suse_archive as archive
from tests.fakes.played.suse.played_suse import Machines, Suse
from tests.fakes.played.suse.suse_archive import NEW, OLD

LONG = pytest.mark.long
NOWHERE = "http://127.0.0.1:9/none"
ENTRY = "[{0}]\nname={0} of the site\nbaseurl={1}\nenabled=1\ngpgcheck={2}\nrepo_gpgcheck={2}\nautorefresh=1\n"
LIBRARIES = "nvidia-compute-G06"
QUERIES = {"search", "refresh", "install"}


def add_repository(node: Suse, name: str, url: str, *, signed: bool = False) -> None:
    """Let a person add a repository, which zypper has never read."""
    node.put(f"etc/zypp/repos.d/{name}.repo", ENTRY.format(name, url, int(signed)))


def add_half_synchronized(node: Suse) -> None:
    """Add a mirror whose index names files that are not there yet."""
    node.channels.publish({"other": archive.user_space(NEW)})
    mirror = node.channels.folder / "mirror"
    shutil.copytree(node.channels.folder / "other", mirror)
    for path in (mirror / "repodata").iterdir():
        if "primary" in path.name:
            path.unlink()
    add_repository(node, "mirror", f"file://{mirror}")


def add_unsigned(node: Suse) -> None:
    """Add a repository whose index has no signature, and must have one."""
    node.channels.publish({"unsigned": archive.user_space(NEW)})
    add_repository(node, "unsigned", f"file://{node.channels.folder}/unsigned", signed=True)


UNREADABLE = {
    "internal": (lambda node: add_repository(node, "internal", NOWHERE), "Failed to connect"),
    "dvd": (lambda node: add_repository(node, "dvd", "cd:///?devices=/dev/sr9"), "Failed to mount"),
    "iso": (lambda node: add_repository(node, "iso", "dir:///mnt/iso"), "can't be determined"),
    "mirror": (add_half_synchronized, "primary.xml.gz"),
    "unsigned": (add_unsigned, "Signature verification failed"),
}


@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize(
    "name", ["internal", *(pytest.param(name, marks=LONG) for name in [*UNREADABLE][1:])]
)
def test_unreadable_repository_is_named_and_stops_nothing(
    suse: Machines, name: str, driven: bool
) -> None:
    add, reason = UNREADABLE[name]
    node = suse.driven(archive.fresh()) if driven else suse(archive.fresh())
    add(node)
    for check_mode in (True, False):
        plan = planned(node, check_mode=check_mode)
        (warning,) = (text for text in plan.warnings if "repository" in text)
        assert f"'{name} of the site'" in warning
        assert f"[{name}|" in warning
        assert reason in warning
        assert bool(plan.steps) is not driven
    assert converge(node).steps == ()
    assert converge(node).steps == ()
    node.archive(archive.FOLLOWED, lists=False)
    assert NEW in planned(node, update=True).steps[0].summary
    assert converge(node, update=True).steps == ()
    assert (node.installed()[LIBRARIES], LIBRARIES in node.held()) == (NEW, True)
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert (set(node.installed()), node.held()) == ({"kernel-default"}, set())


SERVICE = "[SCC]\nname=SCC\nenabled=1\nautorefresh=1\nurl=http://127.0.0.1:9/scc\ntype=ris\n"


@LONG
def test_service_that_does_not_answer_stops_nothing(suse: Machines) -> None:
    """SLES' modules come through the service of its registration."""
    node = suse(archive.fresh())
    node.put("etc/zypp/services.d/SCC.service", SERVICE)
    assert planned(node).steps
    assert converge(node).steps == ()
    node.archive(archive.FOLLOWED, lists=False)
    assert NEW in planned(node, update=True).steps[0].summary
    assert converge(node, update=True).steps == ()
    assert converge(node, state="absent").steps == ()
    assert set(node.installed()) == {"kernel-default"}


@pytest.mark.parametrize("check_mode", [True, pytest.param(False, marks=LONG)])
def test_repository_file_that_zypper_cannot_parse_is_named(
    suse: Machines, check_mode: bool
) -> None:
    node = suse(archive.fresh())
    node.put("etc/zypp/repos.d/broken.repo", "[broken\nbaseurl\n")
    with pytest.raises(NodeError, match=r"(?s)zypper search failed with status 1.*broken\.repo"):
        planned(node, check_mode=check_mode)


def test_modules_of_before_are_not_put_back_from_an_unreadable_repository(suse: Machines) -> None:
    node = suse(archive.fresh())
    desktop = "nvidia-open-driver-G06-signed-kmp-default"
    node.zypper("install", desktop)
    assert converge(node).steps == ()
    node.zypper("clean", "--all")
    for name in ("sle", "cuda"):
        add_repository(node, name, NOWHERE)
    for check_mode in (True, False):
        plan = planned(node, state="absent", check_mode=check_mode)
        assert any(f"{desktop} 575" in text and "put back" in text for text in plan.warnings)
        assert any(
            "could not read the repository 'sle of the site'" in text for text in plan.warnings
        )
    assert converge(node, state="absent").steps == ()
    assert set(node.installed()) == {"kernel-default"}


def test_removal_asks_no_repository(suse: Machines) -> None:
    node = suse.driven(archive.fresh())
    node.put("etc/zypp/repos.d/broken.repo", "[broken\nbaseurl\n")
    node.ran.clear()
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert not [argv for argv in node.ran if argv[0] == "zypper" and QUERIES.intersection(argv)]
    assert (set(node.installed()), node.held()) == ({"kernel-default"}, set())


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize("version", ["", pytest.param("580.1.1", marks=LONG)])
def test_driver_that_is_not_offered_names_the_unreadable_repository(
    suse: Machines, version: str, check_mode: bool
) -> None:
    node = suse({**archive.fresh(), "cuda": ()} if not version else archive.fresh())
    add_repository(node, "internal", NOWHERE)
    words = "the repository internal of the site does not answer.*Failed to connect"
    run = planned if check_mode else converge
    with pytest.raises(NodeError, match=words):
        run(node, version=version)


@pytest.mark.parametrize("check_mode", [True, pytest.param(False, marks=LONG)])
def test_part_in_an_unreadable_repository_is_refused_with_both_causes(
    suse: Machines, check_mode: bool
) -> None:
    node = suse(archive.REFUSED)
    add_repository(node, "tools", NOWHERE)
    before = node.files()
    with pytest.raises(
        NodeError, match=r"(?s)finds no way.*nothing provides nvidia-modprobe"
    ) as error:
        planned(node, check_mode=check_mode)
    assert error.value.cause.count("could not read the repository 'tools of the site'") == 1
    assert "ABORT" not in error.value.cause
    assert node.files() == before


def test_preview_reads_the_old_lists_of_a_repository_that_is_gone(suse: Machines) -> None:
    """A refresh that fails keeps them, so a run goes by them, and the preview with it."""
    node = suse(archive.SPLIT)
    path = "etc/zypp/repos.d/tools.repo"
    node.put(path, (node.read(f"/{path}") or "").replace("file://", "http://127.0.0.1:9/"))
    assert OLD in planned(node, update=True).steps[0].summary


@pytest.mark.parametrize("all_gone", [True, pytest.param(False, marks=LONG)])
def test_node_without_repositories_keeps_its_driver(suse: Machines, all_gone: bool) -> None:
    """As SLES without registration: its modules are services, and no repository is left."""
    node = suse.driven(archive.fresh())
    for name in ("sle", "cuda") if all_gone else ("cuda",):
        node.remove(f"/etc/zypp/repos.d/{name}.repo")
    assert planned(node).steps == ()
    assert converge(node).steps == ()
    assert planned(node, update=True).steps == ()
    assert converge(node, state="absent").steps == ()
    for check_mode in (True, False):
        with pytest.raises(NodeError, match="the package sources have no nvidia"):
            planned(node) if check_mode else converge(node)
