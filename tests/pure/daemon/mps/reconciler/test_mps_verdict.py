# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether an MPS daemon is as it should be."""

from __future__ import annotations

from gpu_plugin.mps.verdict import Verdict, judge

from tests.fakes.mps.mps_builders import offer, seen, state

NOW, BEFORE = offer(), offer(replicas=2)
RESTARTS = "its MPS control daemon restarts with other limits"
WAITS = "its limits change when its 2 clients have ended"
KILLED = "its MPS manager was killed"
CASES = {
    "all is well": (NOW, seen(NOW, state(NOW)), ""),
    "nothing runs yet": (NOW, seen(None, None), "its MPS control daemon is about to start"),
    "it starts": (
        NOW,
        seen(NOW, {**state(NOW, "starting"), "limits": {"asked": {}, "default": {}}}),
        "its MPS control daemon is starting",
    ),
    "it failed": (
        NOW,
        seen(NOW, state(NOW, "failed", problem="no program"), serving=False),
        "its MPS control daemon is failed: no program",
    ),
    "it is silent": (
        NOW,
        seen(NOW, state(NOW, "failed", clients=2, problem="no answer")),
        "its MPS control daemon is failed: no answer",
    ),
    "it failed, and its manager was killed": (
        NOW,
        seen(NOW, state(NOW, "failed", problem="no NVML"), alive=False, serving=False),
        "its MPS control daemon failed: no NVML",
    ),
    "its manager was killed": (NOW, seen(NOW, state(NOW), alive=False), KILLED),
    "its manager hangs": (
        NOW,
        seen(NOW, state(NOW), serving=False),
        "its MPS control daemon ended",
    ),
    "others are asked for": (NOW, seen(NOW, state(BEFORE)), RESTARTS),
    "nobody knows what it runs with": (NOW, seen(NOW, {**state(NOW), "settings": {}}), RESTARTS),
    "another release started it": (
        NOW,
        seen(NOW, {**state(NOW), "settings": {"version": 2, "replicas": 4}}),
        RESTARTS,
    ),
    "another release started it, and clients are there": (
        NOW,
        seen(NOW, {**state(NOW, clients=2), "settings": {"version": 2}}),
        WAITS,
    ),
    "the priority is the containers' alone": (
        offer(priority="below-normal"),
        seen(NOW, state(NOW, clients=2)),
        "",
    ),
    "its end is another one": (offer(drain=9, on_busy="refuse"), seen(NOW, state(NOW)), ""),
    "what is written is not what runs": (NOW, seen(BEFORE, state(NOW)), ""),
    "it is on its way": (
        NOW,
        seen(NOW, state(BEFORE, "stopping")),
        "its MPS control daemon is about to end",
    ),
    "other users are asked for": (offer(multi_user=True), seen(NOW, state(NOW)), RESTARTS),
    "clients are there": (NOW, seen(BEFORE, state(BEFORE, clients=2)), WAITS),
    "clients don't matter": (
        offer(on_busy="terminate"),
        seen(BEFORE, state(BEFORE, clients=2)),
        RESTARTS,
    ),
    "no longer shared": (
        None,
        seen(NOW, state(NOW)),
        "the MPS control daemon that shared it is about to end",
    ),
    "no longer shared, with clients": (
        None,
        seen(None, state(NOW, clients=1)),
        "it was shared by MPS, and its last client has not ended",
    ),
    "no longer shared, whatever they do": (
        None,
        seen(None, state(offer(on_busy="terminate"), clients=1)),
        "the MPS control daemon that shared it is about to end",
    ),
    "no longer shared, after a crash": (
        None,
        seen(None, state(NOW), alive=False),
        "the MPS control daemon that shared it is about to end",
    ),
    "no longer shared, and not all is given back": (
        None,
        seen(None, state(NOW, "failed", problem="no NVML"), serving=False),
        "it was shared by MPS: no NVML",
    ),
    "never shared": (None, seen(None, None), ""),
}


def test_the_problem_of_each_state() -> None:
    found = {case: judge(asked, view) for case, (asked, view, _problem) in CASES.items()}
    assert {case: one.problem for case, one in found.items()} == {
        case: problem for case, (_asked, _view, problem) in CASES.items()
    }
    busy = {case for case, one in found.items() if one.busy}
    assert busy == {one for one in CASES if "clients are there" in one or "with clients" in one}


def test_only_ready_with_every_limit_is_well() -> None:
    for name in ("starting", "failed", "stopping", "crashed"):
        assert judge(NOW, seen(NOW, state(NOW, name))).problem
    told = state(NOW)
    told["limits"]["read_back"] = {}
    assert judge(NOW, seen(NOW, told)).problem
    for key in ("asked", "default"):
        told = state(NOW)
        told["limits"][key] = {"memory_mib": 1, "threads": 1.0}
        assert judge(NOW, seen(NOW, told)) == Verdict(RESTARTS, other=True)
