# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""EPEL and dnf's plugin versionlock, which the driver needs: named or installed; dnf is genuine."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rhel.played_rhel import Machines
from tests.fakes.played.rhel.rhel_archive import VERSION
from tests.fakes.played.rhel.rhel_systems import EL9, EL10, ORACLE, System

pytestmark = [pytest.mark.long]
LOCKING = "python3-dnf-plugin-versionlock"


@pytest.mark.parametrize(
    ("system", "release"),
    [(EL10, "epel-release"), (ORACLE, "oracle-epel-release-el9")],
    ids=["el10", "oracle"],
)
def test_missing_epel_is_named_with_what_brings_it(
    rhel: Machines, system: System, release: str
) -> None:
    node = rhel(system, epel=False)
    before = node.installed()
    words = rf"dkms.*in none of the node's sources.*prerequisites to install.* {release} from your"
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=words):
            planned(node, check_mode=check_mode)
    assert node.installed() == before


@pytest.mark.parametrize("system", [EL9, ORACLE], ids=["el9", "oracle"])
def test_epel_and_versionlock_are_installed_where_asked_and_go(
    rhel: Machines, system: System
) -> None:
    node = rhel(system, epel=False, versionlock=False)
    first = planned(node, prerequisites="install").steps[0]
    release = "oracle-epel-release-el9" if system is ORACLE else "epel-release"
    assert [*first.params["packages"]] == [release]
    assert converge(node, prerequisites="install").steps == ()
    assert {LOCKING, release} <= node.installed().keys()
    assert (node.loaded(), "nvidia-driver-cuda" in node.held()) == (f"{VERSION} open", True)
    converge(node, state="absent")
    assert [*node.installed()] == [system.core]


def test_locking_comes_in_a_transaction_of_its_own(rhel: Machines) -> None:
    found = planned(rhel(versionlock=False), prerequisites="install")
    installs = [step.params for step in found.steps if step.action == "install"]
    assert [*installs[0]["packages"]] == [LOCKING]
    assert "kmod-nvidia-open-dkms" in installs[-1]["packages"]


def test_epel_that_is_off_is_said_to_be(rhel: Machines) -> None:
    node = rhel(epel=False)
    node.dnf("install", "epel-release")
    node.switch("epel", on=False)
    with pytest.raises(NodeError, match=r"epel-release is installed and its repository off.*epel"):
        planned(node, prerequisites="install")
