# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Machines of the RHEL family as administrators have them: genuine dnf 4 and dnf 5."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import capability, converge, planned
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import OLDER, VERSION, driver
from tests.fakes.played.rhel.rhel_systems import EL9, EL10, FEDORA, System
from tests.machine.library.driver.played.rhel.test_outages import silence, warned

pytestmark = [pytest.mark.long]
DNFS = pytest.mark.parametrize("system", [EL9, FEDORA], ids=["dnf4", "dnf5"])


def unregister(node: Rhel) -> None:
    """Disable all repositories, as subscription-manager does on a RHEL that is not registered."""
    for name in ("base", "cuda", "epel"):
        node.switch(name, on=False)


@DNFS
def test_fresh_node_without_repositories_is_refused_in_check_mode_too(
    rhel: Machines, system: System
) -> None:
    node = rhel(system)
    unregister(node)
    before = node.installed()
    for bring in (planned, converge):
        with pytest.raises(NodeError, match=r"no enabled repositor"):
            bring(node)
    converge(node, state="absent")
    assert node.installed() == before


@DNFS
def test_managed_node_without_repositories_stays_and_goes(rhel: Machines, system: System) -> None:
    node = rhel.driven(system)
    unregister(node)
    for options in ({}, {"update": True}, {"version": VERSION}):
        assert planned(node, check_mode=False, **options).steps == ()
    assert converge(node, hold=False).steps == ()
    converge(node, state="absent")
    assert [*node.installed()] == [system.core]


@DNFS
def test_mirror_that_lost_the_packages_fails_whole_and_is_named(
    rhel: Machines, system: System
) -> None:
    node = rhel.driven(system, version=OLDER)
    folder = node.root / "mirror"
    for path in (node.repositories.folder / "cuda/repodata").iterdir():
        node.put(f"mirror/repodata/{path.name}", "")
        (folder / "repodata" / path.name).write_bytes(path.read_bytes())
    silence(node, "cuda", f"baseurl=file://{folder}")
    before, held = node.installed(), node.held()
    planned(node, version="580", update=True)
    with pytest.raises(
        NodeError,
        match=r"(?s)could not carry out.*not installed: kmod-.*(?:No such file|Cannot download)",
    ):
        converge(node, version="580", update=True)
    assert (node.installed(), node.held()) == (before, held)
    assert planned(node, check_mode=False, version=OLDER).steps == ()
    converge(node, state="absent")
    assert [*node.installed()] == [system.core]


@DNFS
@pytest.mark.parametrize("repository", ["", "internal"], ids=["answers", "silent"])
def test_kernel_that_waits_for_its_boot_gets_its_modules_after_it(
    rhel: Machines, system: System, repository: str
) -> None:
    node = rhel.driven(system)
    node.dnf("install", f"{system.core}-{system.newer.rpartition('.')[0]}")
    if repository:
        silence(node, repository)
    assert planned(node, check_mode=False).steps == ()
    node.boot(system.newer)
    assert node.loaded() == ""
    left = converge(node)
    assert (left.steps, len(warned(left.warnings, repository))) == ((), int(bool(repository)))
    assert (node.loaded(), node.works()) == (f"{VERSION} open", True)
    converge(node, state="absent")
    assert not [name for name in node.installed() if "nvidia" in name]


@pytest.mark.parametrize("stop", range(1, 6))
@DNFS
def test_absent_removes_what_a_run_that_was_killed_has_left(
    rhel: Machines, system: System, stop: int
) -> None:
    node = rhel(system)
    before = node.installed()
    run = capability(node, version="570")
    for step in run.plan(run.observe()).steps[:stop]:
        run.apply(step)
    silence(node, "cuda")
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, set())


@DNFS
def test_absent_removes_a_driver_that_is_there_in_two_versions(
    rhel: Machines, system: System
) -> None:
    node = rhel.driven(system, version=OLDER)
    killed = [one for one in driver(system, VERSION) if one.name == "nvidia-driver-cuda-libs"]
    node.run(["rpm", "--install", "--nodeps", "--justdb", "--force", str(killed[0].path)])
    silence(node, "internal")
    converge(node, state="absent")
    assert not [name for name in node.installed() if "nvidia" in name]


def test_exclusions_and_silence_together_do_not_stop_absent(rhel: Machines) -> None:
    node = rhel.driven(EL10)
    node.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\nexcludepkgs=nvidia* kernel*\n")
    silence(node, "base")
    assert planned(node, check_mode=False).steps == ()
    converge(node, state="absent")
    assert [*node.installed()] == [EL10.core]
