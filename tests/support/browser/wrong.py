# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Answers of gpu.node.plan that have another shape at one place, for a report on them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._checks.report.status import FAULT
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import Allocation
from ansible_collections.gpu.node.plugins.plugin_utils.report.shape import CASE

from tests.support.browser import fleets

Place = tuple[str | int, ...]
WHOLE, SPLIT, GONE = (f"GPU-0000000{at}-0000-0000-0000-000000000000" for at in "123")
# What a report may hold of a node beside what it has of the answer below.
MAYBE = {("driver", "days", "NoneType")} | {
    (rows, "*", name, kind.__name__)
    for rows, shape in (("faults", FAULT), ("cases", CASE))
    for name, kinds in shape.items()
    if isinstance(kinds, tuple)
    for kind in kinds
}


def whole() -> dict[str, Any]:
    """Return an answer that fills each key of a report's node."""
    gpus = [
        fleets.gpu(0, WHOLE, "NVIDIA H100", 80, None),
        fleets.gpu(1, SPLIT, "NVIDIA H100", 80, (("3g.40gb", 0), ("2g.20gb", 4))),
    ]
    gpus[0]["processes"] = [
        {"pid": 7, "name": "python", "gpu_uuid": WHOLE, "gi_id": None, "ci_id": None}
    ]
    mig = gpus[1]["mig_devices"][0]["uuid"]
    given = (
        Allocation("team", "train", "main", "nvidia.com/mig-3g.40gb", mig),
        Allocation("team", "gone", "main", "nvidia.com/gpu", GONE),
    )
    faults = (
        fleets.fault(SPLIT, 1, "XID 79 (GPU has fallen off the bus)", 79),
        {**fleets.fault(SPLIT, 1, "its memory is worn", None), "gi": 1},
    )
    answer = fleets.answer(
        gpus,
        "535.288.01",
        given=given,
        drift={"mig": ["GPU 1: destroy 2g.20gb"]},
        faults=faults,
        reboot=("the distribution asks for it",),
        labels={"nvidia.com/gpu.count": "2"},
        cases={SPLIT: fleets.repair(pci="0000:01:00.0")},
        accepted=(fleets.judged(WHOLE, faults=("memory: 1 wrong word",)),),
    )
    told = {"change": "mig", "host": "ctl-1", "user": "root", "begun": "2026-11-23T15:00:00Z"}
    answer["gpu_info"] |= {"change": {**told, "failed": "timed out"}, "missing_gpus": ["0:29:0.0"]}
    answer["parts"][2] |= {"error": {"msg": "no room"}, "blocked_by": ["python (7)"]}
    answer["parts"][0] |= {"warnings": ["/var/lib/gpu-node/mig.json is not there"]}
    return answer


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield where in a value of JSON something stands, the value itself left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        yield (*at, key)
        if isinstance(one, (dict, list, tuple)):
            yield from places(one, (*at, key))


def changed(answer: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """Return the answer with another value at one place."""
    found, at, key = _at(answer, place)
    at[key] = value
    return found


def without(answer: dict[str, Any], place: Place) -> dict[str, Any]:
    """Return the answer without what is at one place."""
    found, at, key = _at(answer, place)
    del at[key]
    return found


def _at(answer: dict[str, Any], place: Place) -> tuple[dict[str, Any], Any, str | int]:
    found = _lists(copy.deepcopy(answer))
    at = found
    for key in place[:-1]:
        at = at[key]
    return found, at, place[-1]


def _lists(value: Any) -> Any:
    """Return a value as JSON gives it back, which has no tuples."""
    if isinstance(value, dict):
        return {key: _lists(one) for key, one in value.items()}
    return [_lists(one) for one in value] if isinstance(value, (list, tuple)) else value


def shape(value: Any, at: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the types in a value by their places: those of a list, and of labels, are one."""
    if isinstance(value, dict):
        keys = ("*" if at == ("labels",) else key for key in value)
        inner = [(*at, key) for key in keys]
        return set().union(*map(shape, value.values(), inner))
    if isinstance(value, list):
        return set().union(*(shape(one, (*at, "*")) for one in value))
    return {(*at, type(value).__name__)}
