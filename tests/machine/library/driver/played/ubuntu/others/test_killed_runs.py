# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A run that is killed between two steps, or inside of dpkg: it is taken back, or finished, on a played Ubuntu."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD

from tests.fakes.packages.driver_runs import capability, converge, planned
from tests.fakes.played.debs import fragile
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.half_configured import add_chrome
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, OLD, full
from tests.runner.tiers import long_but_first

STEPS = 8  # of a first run, with those of the plan that follows the lists
SECOND = (*archive.A, *archive.driver("570.195.03"), *archive.prebuilt(K85, "570.195.03", "+1"))


def run_partly(node: Ubuntu, count: int, **options: Any) -> list[str]:
    """Carry out a number of steps, as a run that is killed after them, and return their actions."""
    driver, carried_out = capability(node, **options), []
    while len(carried_out) < count:
        plan = driver.plan(driver.observe())
        for step in plan.steps[: count - len(carried_out)]:
            driver.apply(step)
            carried_out.append(step.action)
        if not plan.more:
            break
    return carried_out


def check_gone(node: Ubuntu, before: dict[str, str]) -> None:
    """Take back what was added, after a check that promises it; nothing is left to do then."""
    assert planned(node, state="absent") is not None
    assert converge(node, state="absent").steps == ()
    assert (node.installed(), node.held(), node.exists(RECORD)) == (before, set(), False)
    node.apt("update")


@pytest.mark.parametrize(
    "count", long_but_first([4, *(one for one in range(1, STEPS) if one != 4)])
)
def test_run_that_is_killed_between_steps_is_taken_back(ubuntu: Machines, count: int) -> None:
    node = ubuntu(archive.A, K85)
    before = node.installed()
    assert run_partly(node, count, version="580")
    check_gone(node, before)


@pytest.mark.parametrize("count", long_but_first([2, 1, 3]))
def test_change_of_branch_that_is_killed_between_steps_is_taken_back(
    ubuntu: Machines, count: int
) -> None:
    node = ubuntu.driven(SECOND, K85, version="570")
    run_partly(node, count, version="580")
    assert planned(node, state="absent").steps
    converge(node, state="absent")
    assert not [name for name in node.installed() if "nvidia" in name]
    assert not node.held()


@pytest.mark.parametrize(
    "torn", long_but_first(["libnvidia-compute-580-server", "nvidia-utils-580-server"])
)
@pytest.mark.parametrize("chrome", [True, pytest.param(False, marks=pytest.mark.long)])
def test_update_that_is_killed_inside_of_dpkg_is_taken_back(
    ubuntu: Machines, torn: str, chrome: bool
) -> None:
    node = ubuntu.driven([*map(fragile, archive.A)], K85, version="580")
    node.archive([*map(fragile, archive.G2)])
    node.put("torn", torn)
    with pytest.raises(NodeError, match="dpkg"):
        converge(node, version="580", update=True)
    if chrome:
        add_chrome(node)
    assert "repair" not in [step.action for step in planned(node, state="absent").steps]
    assert converge(node, state="absent").steps == ()
    assert not [name for name in node.installed() if "nvidia" in name]
    assert (node.held(), node.exists(RECORD)) == (set(), False)


def test_removal_that_is_killed_inside_of_dpkg_is_finished(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85, version="580")
    node.torn("nvidia-utils-580-server", "purge reinstreq half-installed")
    node.torn("libnvidia-compute-580-server", "deinstall ok config-files")
    converge(node, state="absent")
    assert not [name for name in node.installed() if "nvidia" in name]
    assert not node.exists(RECORD)


def test_adopted_driver_comes_back_from_a_killed_exchange(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(
        SECOND, K85, "nvidia-headless-no-dkms-570-server-open", "nvidia-utils-570-server"
    )
    before = node.installed()
    run_partly(node, 2, version="580", adopt=True)
    assert planned(node, state="absent") is not None
    converge(node, state="absent")
    assert node.installed() == before


@pytest.mark.parametrize("persistence", [True, False])
def test_masked_persistence_daemon_is_refused_before_the_change_or_left_alone(
    ubuntu: Machines, persistence: bool
) -> None:
    node = ubuntu(archive.A, K85)
    unit = "nvidia-persistenced.service"
    before = node.installed()
    systemctl = node._systemctl

    def masked(words: tuple[str, ...]) -> Any:
        if words[1] == "show" and words[2] == unit:
            return systemctl(words)._replace(out="ActiveState=inactive\nUnitFileState=masked\n")
        assert unit not in words, words
        return systemctl(words)

    node.answers["systemctl"] = masked
    if not persistence:
        assert converge(node, version="580", persistence=False).steps == ()
        assert node.installed()["libnvidia-compute-580-server"] == full(OLD)
    else:
        for run in (planned, converge):
            with pytest.raises(NodeError, match=rf"{unit} is masked.*systemctl unmask {unit}"):
                run(node, version="580")
        assert node.installed() == before
    check_gone(node, before)
