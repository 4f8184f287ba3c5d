# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The changes that bring a node's ResourceSlices to the desired ones, by generations of its pool. Pure.

The scheduler looks at a pool's highest generation alone, and allocates nothing of it as long as a slice is
missing. So one slice that changes is replaced within its generation; if more than one is written
all are of a new generation, and what is obsolete goes last, when nobody looks at it any more. Slices of
another pool go first: a GPU in two pools would be allocated twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .._shared._base.dra.names import DRIVER

LONGEST_NAME: Final = 253
CREATE, REPLACE, DELETE = "create", "replace", "delete"
# What an API server drops from slices where a feature gate is off.
GATES: Final = {
    "sharedCounters": "DRAPartitionableDevices",
    "consumesCounters": "DRAPartitionableDevices",
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "requestPolicy": "DRAConsumableCapacity",
    "taints": "DRADeviceTaints",
}
Json = dict[str, Any]
Slice = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """A call of the API: ``spec`` is the desired spec of a slice, ``before`` the existing slice."""

    action: str
    name: str
    spec: Json
    before: Slice | None = None


def name_of(node: str, number: int) -> str:
    """Return the name of a node's slice; their order is that of their numbers, and the scheduler's."""
    name = f"{number:02x}-{DRIVER}-{node}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: LONGEST_NAME - len(digest) - 1].rstrip('-.')}-{digest}"


def changes(node: str, specs: Sequence[Json], there: Sequence[Slice]) -> tuple[Change, ...]:
    """Return what to do, in order; nothing if all is as it should be.

    Args:
        node: The name of the node.
        specs: The desired specs.
        there: All of the driver's slices of the node, also those that others made.
    """
    desired = {name_of(node, number): spec for number, spec in enumerate(specs)}
    names = list(desired)
    pools = {spec["pool"]["name"] for spec in specs}
    strays = [published for published in there if published["spec"]["pool"]["name"] not in pools]
    known = {
        published["metadata"]["name"]: published for published in there if published not in strays
    }
    obsolete = [published for name, published in known.items() if name not in names]
    latest = max(map(_generation, known.values()), default=0)
    current = {name for name in names if name in known and _generation(known[name]) == latest}
    differs = [
        name
        for name, spec in desired.items()
        if name not in current or plain(known[name]["spec"]) != _of(spec, latest)
    ]
    within = len(differs) <= 1 and set(names) <= current
    if within and all(_generation(published) < latest for published in obsolete):
        generation, due = latest, differs
    else:
        generation, due = latest + 1, names
    written = []
    for name in due:
        before = known.get(name)
        spec = _dated(_of(desired[name], generation), before)
        written.append(Change(REPLACE if before else CREATE, name, spec, before))
    return (*map(_deletion, strays), *written, *map(_deletion, obsolete))


def _deletion(published: Slice) -> Change:
    return Change(DELETE, published["metadata"]["name"], {}, published)


def _generation(published: Slice) -> int:
    return int(published["spec"]["pool"].get("generation", 0))


def _of(spec: Json, generation: int) -> Json:
    return {**spec, "pool": {**spec["pool"], "generation": generation}}


def plain(spec: Slice) -> Json:
    """Return a spec without what the API server adds: the times of taints."""
    if "devices" not in spec:
        return dict(spec)
    devices = [
        {**device, "taints": [_timeless(taint) for taint in device["taints"]]}
        if device.get("taints")
        else dict(device)
        for device in spec["devices"]
    ]
    return {**spec, "devices": devices}


def _timeless(taint: Slice) -> Json:
    return {key: value for key, value in taint.items() if key != "timeAdded"}


def _dated(spec: Json, before: Slice | None) -> Json:
    """Return a spec whose taints have the times of the same taints before."""
    if before is None or "devices" not in spec:
        return spec
    times = {
        (device["name"], *sorted(_timeless(taint).items())): taint["timeAdded"]
        for device in before["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
        if "timeAdded" in taint
    }
    devices = []
    for device in spec["devices"]:
        taints = []
        for taint in device.get("taints", ()):
            time = times.get((device["name"], *sorted(taint.items())))
            taints.append({**taint, "timeAdded": time} if time else taint)
        devices.append({**device, "taints": taints} if "taints" in device else device)
    return {**spec, "devices": devices}


def dropped(sent: Any, stored: Any) -> set[str]:
    """Return the feature gates without which an API server stored less than it was sent."""
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        gone = {GATES[key] for key in sent if key in GATES and not stored.get(key)}
        return gone.union(*(dropped(sent[key], stored.get(key)) for key in sent))
    if isinstance(sent, list) and isinstance(stored, list):
        return set().union(*(dropped(*pair) for pair in zip(sent, stored, strict=False)))
    return set()
