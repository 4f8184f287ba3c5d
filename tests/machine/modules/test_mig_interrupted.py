# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.mig killed between any two steps, and two at once."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from nvsim.testing import Sim

from tests.machine.modules.mig_scene import (
    CREATE_CI,
    CREATE_GI,
    DESTROY_CI,
    DESTROY_GI,
    SET_MODE,
    THREE,
    Run,
    config,
    names,
)

Start = Callable[..., "subprocess.Popen[str]"]
AFTER = {"2g.10gb": 2, "3g.20gb": 1}


def slow_down(sim: Sim, milliseconds: int) -> None:
    for function in (CREATE_CI, CREATE_GI, DESTROY_CI, DESTROY_GI, SET_MODE):
        sim.ctl("delay", function=function, ms=milliseconds)


def scene(sim: Sim) -> Any:
    return [(one["mig_current"], one["gis"]) for one in sim.ctl("status")["gpus"]]


def kill_after(process: subprocess.Popen[str], sim: Sim, changes: int) -> int:
    """Kill a run once it has made so many changes; return how many it made."""
    seen, last = 0, scene(sim)
    while seen < changes and process.poll() is None:
        now = scene(sim)
        if now != last:
            seen, last = seen + 1, now
        time.sleep(0.005)
    process.kill()
    process.communicate()
    return seen


@pytest.mark.parametrize("before", [{}, THREE], ids=["from nothing", "from another layout"])
def test_killed_between_any_two_steps_the_next_run_finishes(
    before: dict[str, int], a100: Sim, start_module: Start, run_module: Run
) -> None:
    made = 0
    for changes in range(1, 20):
        a100.ctl("clear-faults")
        assert not run_module(a100, "mig", config=config(before)).get("failed")
        slow_down(a100, 60)
        made = kill_after(start_module(a100, "mig", config=config(AFTER)), a100, changes)
        a100.ctl("clear-faults")
        done = run_module(a100, "mig", config=config(AFTER))
        assert not done.get("failed"), done["msg"]
        assert names(a100) == ["2g.10gb", "2g.10gb", "3g.20gb"]
        if made < changes:
            break
    assert made >= 5


def test_gpu_lost_half_way_is_told_and_the_run_after_its_return_finishes(
    a100: Sim, start_module: Start, run_module: Run
) -> None:
    run_module(a100, "mig", config=config(THREE, 0, 1))
    slow_down(a100, 300)
    process = start_module(a100, "mig", config=config(AFTER))
    before = scene(a100)
    while scene(a100) == before:
        time.sleep(0.01)
    a100.ctl("lose", gpu="1")
    failed = json.loads(process.communicate()[0])
    assert failed["failed"]
    assert "the GPU has fallen off the bus" in failed["msg"]
    assert "could not be restored" in failed["msg"]
    assert names(a100, 0) == sorted(["1g.5gb", "1g.5gb", "3g.20gb"])
    a100.ctl("clear-faults")
    a100.ctl("restore", gpu="1")
    done = run_module(a100, "mig", config=config(AFTER))
    assert not done.get("failed"), done["msg"]
    assert names(a100) == ["2g.10gb", "2g.10gb", "3g.20gb"]


def test_second_run_at_once_waits_or_says_so(
    a100: Sim, start_module: Start, run_module: Run
) -> None:
    slow_down(a100, 500)
    first = start_module(a100, "mig", config=config(THREE))
    while not a100.ctl("status")["gpus"][1]["mig_current"]:
        time.sleep(0.01)
    refused = run_module(a100, "mig", config=config(THREE), lock_timeout=0)
    assert refused["failed"]
    assert "mig.lock is held by another process" in refused["msg"]
    waited = run_module(a100, "mig", config=config(THREE))
    assert waited["changed"] is False
    assert json.loads(first.communicate()[0])["changed"] is True
