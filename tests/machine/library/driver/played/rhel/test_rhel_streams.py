# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Module streams of a played Rocky 8 and 9, whose dnf is genuine."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.rpm import (
    is_disabled,
    parse_enabled,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.families.rhel import (
    MODULE_FILE,
)

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import BEFORE, VERSION, broken
from tests.fakes.played.rhel.rhel_systems import EL8, EL9, System
from tests.fakes.played.rooted import V100
from tests.machine.library.driver.played.rhel.test_outages import silence

pytestmark = [pytest.mark.long]


def enabled(node: Rhel) -> str:
    return parse_enabled(node.read(MODULE_FILE) or "")


@pytest.mark.parametrize("system", [EL8, EL9], ids=["el8", "el9"])
def test_check_mode_names_the_versions_of_the_stream(rhel: Machines, system: System) -> None:
    node = rhel(system)
    before, files = node.installed(), node.files().keys()
    found = planned(node, version="570")
    assert found.after["packages"]["nvidia-driver-cuda"] == f"3:{BEFORE}-1.{system.dist}"
    assert "stream" in [step.action for step in found.steps]
    assert (enabled(node), node.installed()) == ("", before)
    assert not [path for path in node.files().keys() - files if "/cache/" not in path]
    assert converge(node, version="570").steps == ()
    assert (enabled(node), node.loaded(), node.works()) == ("570-open", f"{BEFORE} open", True)
    node.ran.clear()
    assert converge(node, version="570").steps == ()
    assert not [words for words in node.ran if "module" in words]


def test_check_mode_simulates_another_stream_in_place_of_the_enabled_one(rhel: Machines) -> None:
    node = rhel.driven(version="570")
    found = planned(node, version="580")
    assert found.after["packages"]["kmod-nvidia-open-dkms"] == f"3:{VERSION}-1.el9"
    assert enabled(node) == "570-open"
    converge(node, version="580")
    assert (enabled(node), node.modules(EL9.kernel)) == ("580-open", [f"{VERSION} open"])
    converge(node, state="absent")
    assert (enabled(node), "kmod-nvidia-open-dkms" in node.installed()) == ("", False)


def test_stream_that_somebody_enabled_stays_where_it_fits_and_comes_back(rhel: Machines) -> None:
    node = rhel()
    node.dnf("module", "enable", "nvidia-driver:570-open")
    converge(node)
    assert (enabled(node), node.loaded()) == ("570-open", f"{BEFORE} open")
    converge(node, version="580")
    assert enabled(node) == "580-open"
    converge(node, state="absent")
    assert enabled(node) == "570-open"


def test_stream_that_rolls_gives_way_to_the_branch_that_is_asked_for(rhel: Machines) -> None:
    node = rhel()
    node.dnf("module", "enable", "nvidia-driver:open-dkms")
    assert converge(node, version="570").steps == ()
    assert (enabled(node), node.loaded()) == ("570-open", f"{BEFORE} open")


def test_old_gpu_gets_the_stream_of_the_last_branch_that_runs_it(rhel: Machines) -> None:
    node = rhel(gpu=V100)
    assert converge(node).steps == ()
    assert (enabled(node), node.loaded()) == ("580-dkms", f"{VERSION} proprietary")


def test_part_that_dnf_does_not_find_is_refused_before_the_rest_is_installed(
    rhel: Machines,
) -> None:
    node = rhel()
    packages, streams = broken(EL9)
    node.offer("more", [one for one in packages if one.name != "nvidia-persistenced"], streams)
    before = node.installed()
    with pytest.raises(NodeError, match=r"(?s)dnf finds no way.*match: nvidia-persistenced"):
        planned(node, version="590")
    with pytest.raises(NodeError, match="dnf finds no way"):
        converge(node, version="590")
    assert (node.installed(), enabled(node)) == (before, "")


@pytest.mark.parametrize("answers", [True, False], ids=["answers", "silent"])
@pytest.mark.parametrize("command", ["disable", "enable"])
def test_absent_leaves_the_module_as_it_was(rhel: Machines, command: str, *, answers: bool) -> None:
    node = rhel()
    stream = ":570-open" if command == "enable" else ""
    node.dnf("module", command, f"nvidia-driver{stream}")
    before = node.read(MODULE_FILE)
    assert converge(node, version="580").steps == ()
    assert enabled(node) == "580-open"
    assert planned(node, version="580", check_mode=False).steps == ()
    if not answers:
        silence(node, "cuda")
    converge(node, state="absent")
    assert is_disabled(node.read(MODULE_FILE) or "") is (command == "disable")
    assert (node.read(MODULE_FILE) or "").strip() == (before or "").strip()
    if answers:
        node.dnf("repoquery", "nvidia-driver-cuda")
