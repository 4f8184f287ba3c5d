# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.mig gives back the layouts that it found, on the simulated driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from nvsim.testing import Sim, start

from tests.machine.modules.mig_scene import (
    CREATE_GI,
    DESTROY_GI,
    THREE,
    UNKNOWN,
    Run,
    config,
    layout,
    places,
)


def by_hand(sim: Sim, nvidia_smi: Path, *words: str) -> None:
    """Change the layout as somebody else does."""
    done = subprocess.run(
        [nvidia_smi, *words], env=sim.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def own_layout(sim: Sim, nvidia_smi: Path) -> list[tuple[str, int]]:
    """Cut GPU 1 by hand, at places that no planner would choose."""
    by_hand(sim, nvidia_smi, "-i", "1", "-mig", "1")
    by_hand(sim, nvidia_smi, "mig", "-i", "1", "-cgi", "19:6,14:2", "-C")
    found = places(sim)
    assert found == [("1g.5gb", 6), ("2g.10gb", 2)]
    return found


def modes(sim: Sim) -> list[bool]:
    return [bool(one["mig_current"]) for one in sim.ctl("status")["gpus"]]


def test_own_layout_comes_back_at_its_places(a100: Sim, run_module: Run, nvidia_smi: Path) -> None:
    own = own_layout(a100, nvidia_smi)
    run_module(a100, "mig", config=config({"7g.40gb": 1}, 0, 1))
    run_module(a100, "mig", config=config(THREE, 0, 1))
    checked = run_module(a100, "mig", check=True, state="absent")
    assert len(places(a100)) == 3
    gone = run_module(a100, "mig", state="absent")
    assert (gone["steps"], gone["diff"]) == (checked["steps"], checked["diff"])
    assert places(a100) == own
    assert layout(a100, 0) == []
    assert modes(a100) == [False, True]
    assert not run_module(a100, "mig", state="absent")["changed"]


def test_layout_that_was_never_changed_stays(a100: Sim, run_module: Run, nvidia_smi: Path) -> None:
    own = own_layout(a100, nvidia_smi)
    run_module(a100, "mig", config=config(THREE, 0))
    same = run_module(a100, "mig", config=config({"1g.5gb": 1, "2g.10gb": 1}))
    assert not same["changed"]
    run_module(a100, "mig", state="absent")
    assert (places(a100), modes(a100)) == (own, [False, True])


def test_layout_of_somebody_else_stays_with_a_warning(
    a100: Sim, run_module: Run, nvidia_smi: Path
) -> None:
    run_module(a100, "mig", config=config(THREE, 0, 1))
    by_hand(a100, nvidia_smi, "mig", "-i", "1", "-dci")
    by_hand(a100, nvidia_smi, "mig", "-i", "1", "-dgi")
    by_hand(a100, nvidia_smi, "mig", "-i", "1", "-cgi", "5:0", "-C")
    gone = run_module(a100, "mig", state="absent")
    assert places(a100) == [("4g.20gb", 0)]
    assert "4g.20gb at placement 0:4 is not of a layout" in str(gone["warnings"])
    assert (layout(a100, 0), modes(a100)) == ([], [False, True])
    assert not run_module(a100, "mig", state="absent")["changed"]


@pytest.mark.parametrize(("function", "wanted"), [(DESTROY_GI, {"7g.40gb": 1}), (CREATE_GI, THREE)])
def test_change_that_stopped_half_way_is_given_back(
    a100: Sim, run_module: Run, nvidia_smi: Path, function: str, wanted: dict[str, int]
) -> None:
    own = own_layout(a100, nvidia_smi)
    # The way back fails too, so that the GPU is left in the middle.
    a100.ctl("fault", gpu="1", function=function, code=UNKNOWN, nth=2, times=9)
    assert run_module(a100, "mig", config=config(wanted))["failed"]
    a100.ctl("clear-faults")
    run_module(a100, "mig", state="absent")
    assert places(a100) == own


def test_gpu_in_use_is_not_given_back(a100: Sim, run_module: Run) -> None:
    run_module(a100, "mig", config=config(THREE))
    holder = a100.hold(1, 1, 0)
    try:
        refused = run_module(a100, "mig", state="absent")
        assert refused["failed"]
        assert "in use" in refused["msg"]
        assert len(places(a100)) == 3
    finally:
        a100.let_go(holder)
    run_module(a100, "mig", state="absent")
    assert (places(a100), modes(a100)) == ([], [False, False])


def test_without_a_record_nothing_needs_a_driver(run_module: Run) -> None:
    with start("a100-40", 2, driver=None) as sim:
        assert not run_module(sim, "mig", state="absent")["changed"]
