# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.mig killed between any two steps, and two at once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from nvsim.testing import Sim

from tests.machine.modules.mig_scene import (
    THREE,
    Run,
    begins_a_change,
    config,
    hold_changes,
    let_all_through,
    let_one_through,
    names,
)
from tests.support.waiting import LIMIT

Start = Callable[..., "subprocess.Popen[str]"]
AFTER = {"2g.10gb": 2, "3g.20gb": 1}


def kill_at(process: subprocess.Popen[str], sim: Sim, changes: int) -> bool:
    """Kill a run as it begins the change after so many; False where it has ended before."""
    while begins_a_change(sim, process):
        if not changes:
            process.kill()
            return True
        let_one_through(sim)
        changes -= 1
    return False


@pytest.mark.parametrize(
    "before",
    [
        pytest.param({}, id="from nothing", marks=pytest.mark.long),
        pytest.param(THREE, id="from another layout"),
    ],
)
def test_killed_between_any_two_steps_the_next_run_finishes(
    before: dict[str, int], a100: Sim, start_module: Start, run_module: Run
) -> None:
    changes, killed = -1, True
    while killed:
        changes += 1
        assert not run_module(a100, "mig", config=config(before)).get("failed")
        hold_changes(a100)
        killed = kill_at(start_module(a100, "mig", config=config(AFTER)), a100, changes)
        let_all_through(a100)
        done = run_module(a100, "mig", config=config(AFTER))
        assert not done.get("failed"), done["msg"]
        assert names(a100) == ["2g.10gb", "2g.10gb", "3g.20gb"]
    assert changes >= 5


def test_gpu_lost_half_way_is_told_and_the_run_after_its_return_finishes(
    a100: Sim, start_module: Start, run_module: Run
) -> None:
    run_module(a100, "mig", config=config(THREE, 0, 1))
    hold_changes(a100)
    process = start_module(a100, "mig", config=config(AFTER))
    assert begins_a_change(a100, process)
    let_one_through(a100)
    assert begins_a_change(a100, process)
    a100.ctl("lose", gpu="1")
    let_all_through(a100)
    failed = json.loads(process.communicate()[0])
    assert failed["failed"]
    assert "the GPU has fallen off the bus" in failed["msg"]
    assert "could not be restored" in failed["msg"]
    assert names(a100, 0) == sorted(["1g.5gb", "1g.5gb", "3g.20gb"])
    a100.ctl("restore", gpu="1")
    done = run_module(a100, "mig", config=config(AFTER))
    assert not done.get("failed"), done["msg"]
    assert names(a100) == ["2g.10gb", "2g.10gb", "3g.20gb"]


def test_second_run_at_once_waits_or_says_so(
    a100: Sim, start_module: Start, run_module: Run
) -> None:
    hold_changes(a100)
    first = start_module(a100, "mig", config=config(THREE))
    assert begins_a_change(a100, first)
    refused = run_module(a100, "mig", config=config(THREE), lock_timeout=0)
    assert refused["failed"]
    assert "another run changes this node: " in refused["msg"]
    assert "node.lock is held by process " in refused["msg"]
    second = start_module(a100, "mig", config=config(THREE), lock_timeout=int(LIMIT))
    let_all_through(a100)
    assert json.loads(first.communicate()[0])["changed"] is True
    assert json.loads(second.communicate()[0])["changed"] is False
