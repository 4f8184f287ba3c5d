# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether an MPS daemon is as it should be, and what has to be done if not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_plugin.mps.verdict import Act, Verdict, judge
from mps_builders import offer, seen, state

NOW, BEFORE = offer(), offer(replicas=2)
OTHERS = replace(NOW, settings=replace(NOW.settings, replicas=0))  # they can't be read
CASES = {
    "all is well": (NOW, seen(NOW, state(NOW)), "", Act.NOTHING),
    "nothing runs yet": (NOW, seen(None, None), "its MPS daemon is about to start", Act.START),
    "it starts": (
        NOW,
        seen(NOW, {**state(NOW, "starting"), "limits": {"asked": {}, "default": {}}}),
        "its MPS daemon is starting",
        Act.NOTHING,
    ),
    "it failed": (
        NOW,
        seen(NOW, state(NOW, "failed", problem="no program")),
        "its MPS daemon is failed: no program",
        Act.NOTHING,
    ),
    "its manager gave up": (
        NOW,
        seen(NOW, state(NOW, "failed", problem="no NVML"), alive=False),
        "its MPS daemon failed: no NVML",
        Act.START,
    ),
    "its manager was killed": (
        NOW,
        seen(NOW, state(NOW), alive=False),
        "its MPS daemon's manager was killed",
        Act.START,
    ),
    "its manager hangs": (
        NOW,
        seen(NOW, state(NOW), serving=False),
        "its MPS daemon ended",
        Act.NOTHING,
    ),
    "others are asked for": (
        NOW,
        seen(BEFORE, state(BEFORE)),
        "its MPS daemon restarts with other limits",
        Act.RESTART,
    ),
    "another release started it": (
        NOW,
        seen(OTHERS, state(NOW)),
        "its MPS daemon restarts with other limits",
        Act.RESTART,
    ),
    "another release started it, and clients are there": (
        NOW,
        seen(OTHERS, state(NOW, clients=2)),
        "its limits change when its 2 clients have ended",
        Act.NOTHING,
    ),
    "the priority is the containers' alone": (
        offer(priority="below-normal"),
        seen(NOW, state(NOW)),
        "",
        Act.NOTHING,
    ),
    "a restart was cut off": (
        NOW,
        seen(NOW, state(BEFORE)),
        "its MPS daemon restarts with other limits",
        Act.RESTART,
    ),
    "it is on its way": (
        NOW,
        seen(NOW, state(BEFORE, "stopping")),
        "its MPS daemon is about to end",
        Act.NOTHING,
    ),
    "other users are asked for": (
        offer(multi_user=True),
        seen(offer(multi_user=True), state(NOW)),
        "its MPS daemon restarts with other limits",
        Act.RESTART,
    ),
    "clients are there": (
        NOW,
        seen(BEFORE, state(BEFORE, clients=2)),
        "its limits change when its 2 clients have ended",
        Act.NOTHING,
    ),
    "clients don't matter": (
        offer(on_busy="terminate"),
        seen(BEFORE, state(BEFORE, clients=2)),
        "its MPS daemon restarts with other limits",
        Act.RESTART,
    ),
    "no longer shared": (
        None,
        seen(NOW, state(NOW)),
        "the MPS daemon that shared it is about to end",
        Act.STOP,
    ),
    "no longer shared, with clients": (
        None,
        seen(NOW, state(NOW, clients=1)),
        "it was shared by MPS, and its last client has not ended",
        Act.NOTHING,
    ),
    "no longer shared, whatever they do": (
        None,
        seen(offer(on_busy="terminate"), state(NOW, clients=1)),
        "the MPS daemon that shared it is about to end",
        Act.STOP,
    ),
    "no longer shared, after a crash": (
        None,
        seen(NOW, state(NOW), alive=False),
        "the MPS daemon that shared it has to clean up",
        Act.START,
    ),
    "no longer shared, after a failure": (
        None,
        seen(NOW, state(NOW, "failed"), alive=False),
        "",
        Act.STOP,
    ),
    "no longer shared, after a crash that took its settings": (
        None,
        seen(None, state(NOW), alive=False),
        "the MPS daemon that shared it has to clean up",
        Act.START,
    ),
    "a failure that took its settings": (
        None,
        seen(None, state(NOW, "failed"), alive=False),
        "",
        Act.NOTHING,
    ),
    "never shared": (None, seen(None, None), "", Act.NOTHING),
}


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: str) -> None:
    one, view, problem, act = CASES[case]
    found = judge(one, view)
    assert (found.problem, found.act) == (problem, act)
    assert found.busy == ("clients are there" in case or "with clients" in case)


def test_only_ready_with_every_limit_is_well() -> None:
    for name in ("starting", "failed", "stopping", "crashed"):
        assert judge(NOW, seen(NOW, state(NOW, name))).problem
    told = state(NOW)
    told["limits"]["read_back"] = {}
    assert judge(NOW, seen(NOW, told)).problem
    for key in ("asked", "default"):
        told = state(NOW)
        told["limits"][key] = {"memory_mib": 1, "threads": 1.0}
        assert judge(NOW, seen(NOW, told)) == Verdict(
            "its MPS daemon restarts with other limits", Act.RESTART
        )
