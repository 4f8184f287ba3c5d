# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages that dnf's configuration excludes are said to be, with genuine dnf 4 and dnf 5."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_systems import EL9, FEDORA, System

PLAIN = "[main]\ngpgcheck=0\n"
DNFS = [
    pytest.param(EL9, id="dnf4", marks=pytest.mark.long),
    pytest.param(FEDORA, id="dnf5", marks=pytest.mark.long),
]


def exclude(node: Rhel, patterns: str, option: str = "excludepkgs") -> None:
    """Have dnf's configuration exclude packages."""
    node.put("etc/dnf/dnf.conf", f"{PLAIN}{option}={patterns}\n")


@pytest.mark.parametrize("system", DNFS)
def test_excluded_headers_are_named_and_come_once_they_are_not(
    rhel: Machines, system: System
) -> None:
    node = rhel(system)
    exclude(node, "kernel*")
    before = node.installed()
    pattern = rf"its headers.*configuration excludes kernel-devel-{system.kernel}.*excludepkgs"
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=pattern) as refused:
            planned(node, check_mode=check_mode)
        assert "moved on" not in str(refused.value)
    converge(node, state="absent")
    assert node.installed() == before
    node.put("etc/dnf/dnf.conf", PLAIN)
    assert converge(node).steps == ()
    exclude(node, "kernel* nvidia*")
    assert converge(node).steps == ()
    converge(node, state="absent")
    assert [*node.installed()] == [system.core]


@pytest.mark.long
@pytest.mark.parametrize("system", [EL9, FEDORA], ids=["dnf4", "dnf5"])
@pytest.mark.parametrize("patterns", ["kmod-nvidia*", "nvidia-*"])
def test_excluded_driver_is_named(rhel: Machines, system: System, patterns: str) -> None:
    node = rhel(system)
    exclude(node, patterns, "exclude")
    for check_mode in (True, False):
        name = patterns.rstrip("*")
        with pytest.raises(NodeError, match=rf"(?s)configuration excludes {name}.*excludepkgs"):
            planned(node, check_mode=check_mode)
