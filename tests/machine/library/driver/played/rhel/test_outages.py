# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Repositories that do not answer, with genuine dnf 4 and dnf 5: others' stop nothing, the driver's is named."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import BEFORE, OLDER, VERSION
from tests.fakes.played.rhel.rhel_systems import EL9, FEDORA, System

DNF5 = pytest.param(FEDORA, id="dnf5", marks=pytest.mark.long)
DNFS = [pytest.param(EL9, id="dnf4"), DNF5]
LONG_DNFS = [pytest.param(EL9, id="dnf4", marks=pytest.mark.long), DNF5]
ENTRY = "[{0}]\nname=The {0} one\n{1}\nenabled=1\ngpgcheck=0\nskip_if_unavailable={2}\n"
NOWHERE = "baseurl=http://127.0.0.1:9/none"


def silence(node: Rhel, name: str, address: str = NOWHERE, *, skip: bool = False) -> None:
    """Have a repository, known before or not, no longer answer; nothing of it is in dnf's cache."""
    node.put(f"etc/yum.repos.d/{name}.repo", ENTRY.format(name, address, skip))


def warned(warnings: tuple[str, ...], name: str) -> list[str]:
    """Return what is said of a repository."""
    return [text for text in warnings if f"the repository {name} does not answer" in text]


@pytest.mark.parametrize("system", DNFS)
def test_driver_comes_stays_and_goes_though_another_repository_is_down(
    rhel: Machines, system: System
) -> None:
    node = rhel(system)
    before = node.installed()
    silence(node, "internal")
    check = planned(node, version="570")
    assert len(warned(check.warnings, "internal")) == 1
    assert "Failed to download metadata" in warned(check.warnings, "internal")[0]
    left = converge(node, version="570")
    assert (left.steps, len(warned(left.warnings, "internal"))) == ((), 1)
    assert node.installed()["nvidia-driver-cuda"] == BEFORE
    assert "nvidia-driver-cuda" in node.held()
    second = planned(node, check_mode=False, version="570")
    assert (second.steps, len(warned(second.warnings, "internal"))) == ((), 1)
    assert converge(node, version="580", reload="when_idle").steps == ()
    assert (node.loaded(), node.works()) == (f"{VERSION} open", True)
    assert "nvidia-driver-cuda" in node.held()
    assert converge(node, hold=False).steps == ()
    assert not node.held()
    planned(node, state="absent")
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, set())


@pytest.mark.parametrize("system", LONG_DNFS)
def test_several_repositories_that_are_down_are_named_once_each(
    rhel: Machines, system: System
) -> None:
    node = rhel(system)
    silence(node, "internal")
    silence(node, "site.example-9", "mirrorlist=http://127.0.0.1:9/none", skip=True)
    silence(node, "bare", "")
    left = converge(node)
    assert left.steps == ()
    counts = [len(warned(left.warnings, one)) for one in ("internal", "site.example-9", "bare")]
    assert counts == [1, 1, 1]
    node.ran.clear()
    converge(node, state="absent")
    assert not warned(planned(node, state="absent").warnings, "internal")


@pytest.mark.parametrize("skip", [False, True], ids=["stops", "skipped"])
@pytest.mark.parametrize("system", LONG_DNFS)
def test_drivers_repository_that_is_down_is_the_cause_in_check_mode_too(
    rhel: Machines, system: System, skip: bool
) -> None:
    node = rhel(system)
    silence(node, "cuda", skip=skip)
    before = node.installed()
    words = r"(?s)sources do not offer kmod-nvidia.*repository cuda does not answer: Failed to down"
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=words) as refused:
            planned(node, check_mode=check_mode)
        assert "no pin" not in str(refused.value)
    assert node.installed() == before


@pytest.mark.parametrize("system", LONG_DNFS)
def test_managed_node_needs_no_repository_for_what_it_has(rhel: Machines, system: System) -> None:
    node = rhel.driven(system, version=OLDER)
    for name in ("cuda", "base", "epel"):
        silence(node, name)
    for options in ({}, {"version": OLDER}, {"version": "580"}, {"update": True}):
        left = planned(node, check_mode=False, **options)
        assert (left.steps, len(warned(left.warnings, "cuda"))) == ((), 1), options
    for bring in (planned, converge):
        with pytest.raises(NodeError, match=r"(?s)'570'.*repository cuda does not answer"):
            bring(node, version="570")
    assert converge(node, hold=False).steps == ()
    assert converge(node, hold=True).steps == ()
    assert "nvidia-driver-cuda" in node.held()
    converge(node, state="absent")
    assert not [name for name in node.installed() if "nvidia" in name]
    assert node.held() == set()


@pytest.mark.long
def test_epel_that_is_down_is_the_cause(rhel: Machines) -> None:
    node = rhel()
    node.dnf("install", "epel-release")
    silence(node, "epel")
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=r"(?s)dkms.*none of.*repository epel does not answer"):
            planned(node, check_mode=check_mode)


@pytest.mark.long
@pytest.mark.parametrize("system", LONG_DNFS)
def test_half_synchronized_mirror_of_somebody_else_stops_nothing(
    rhel: Machines, system: System
) -> None:
    node = rhel(system)
    folder = node.root / "half/repodata"
    source = node.repositories.folder / "base/repodata"
    for path in source.iterdir():
        if "primary" not in path.name:
            node.put(f"half/repodata/{path.name}", "")
            (folder / path.name).write_bytes(path.read_bytes())
    silence(node, "half", f"baseurl=file://{folder.parent}")
    left = converge(node)
    assert (left.steps, len(warned(left.warnings, "half"))) == ((), 1)
    converge(node, state="absent")
    assert [*node.installed()] == [system.core]


def test_query_that_fails_is_no_empty_answer(rhel: Machines) -> None:
    node = rhel()
    node.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\ncacheonly=1\n")
    node.remove("/cache")
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=r"(?s)asked what the repositories offer.*Cache-only"):
            planned(node, check_mode=check_mode)
