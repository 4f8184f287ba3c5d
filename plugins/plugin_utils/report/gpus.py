# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node's GPUs for a report: their memory grids, and who uses which part of them. Pure."""

from __future__ import annotations

import collections
import typing as t

Json = t.Dict[str, t.Any]
Place = t.Tuple[
    str, t.Optional[int]
]  # a GPU's UUID, and the id of an instance, None for the whole of it
Users = t.Mapping[Place, t.Sequence[Json]]
NOWHERE: Place = ("", None)
MOST_SLOTS = 64  # that are drawn of a GPU, of which H100 and B200 have 8


def users(status: t.Mapping[str, t.Any]) -> t.Dict[Place, t.List[Json]]:
    """Return who uses which place; at NOWHERE are those of whom it is not known."""
    result: t.Dict[Place, t.List[Json]] = collections.defaultdict(list)
    for allocation in status.get("allocations", ()):
        places = {(at["gpu"], at["gi_id"]): None for at in allocation["places"]} or {NOWHERE: None}
        for place in places:
            _add(result[place], _allocation(allocation))
    for process in status.get("processes", ()):
        _add(result[process["gpu"], process["gi_id"]], _process(process))
    return result


def _add(there: t.List[Json], user: Json) -> None:
    """Add what is not there yet: several shares of a device are one user of it."""
    if user not in there:
        there.append(user)


def _allocation(allocation: t.Mapping[str, t.Any]) -> Json:
    name = (
        f"{allocation['namespace']}/{allocation['pod']}"
        if allocation["namespace"]
        else allocation["pod"]
    )
    return {
        "kind": "pod" if allocation["container"] else "claim",
        "name": name,
        "detail": allocation["container"],
        "device": f"{allocation['resource']} {allocation['device'].partition('::')[0]}",
    }


def _process(process: t.Mapping[str, t.Any]) -> Json:
    kinds = [
        ("pod", process["pod"]),
        ("container", process["container"]),
        ("service", process["unit"]),
    ]
    where = next((f"{kind} {name}" for kind, name in kinds if name), "")
    return {
        "kind": "process",
        "name": f"{process['name'] or 'unknown'} ({process['pid']})",
        "detail": where,
        "device": "",
    }


def gpus(
    info: t.Mapping[str, t.Any],
    using: Users,
    faults: t.Iterable[t.Mapping[str, t.Any]],
    aside: t.Iterable[t.Mapping[str, t.Any]] = (),
    *,
    known: bool,
) -> t.List[Json]:
    """Return the GPUs that answer. Memory is in bytes; ``slots`` is how many memory slices MIG divides it into.

    ``aside`` is in quarantine. ``known``: who uses the node's GPUs is known, so that one without a user is free.
    """
    unfit: t.Dict[Place, str] = {
        (uuid, None): f"in quarantine: {quarantined['reason']}"
        for quarantined in aside
        for uuid in (
            [quarantined["gpu"]]
            if quarantined["gpu"]
            else [gpu["uuid"] for gpu in info.get("gpus", ())]
        )
    }
    unfit.update({(fault["gpu"], fault["gi"]): fault["reason"] for fault in faults})
    return [{**_gpu(gpu, using, unfit), "known": known} for gpu in info.get("gpus", ())]


def _gpu(gpu: t.Mapping[str, t.Any], using: Users, unfit: t.Mapping[Place, str]) -> Json:
    uuid, mig = gpu["uuid"], gpu["mig_current"]
    instances = (
        [_instance(gpu, gpu_instance, using, unfit) for gpu_instance in gpu["gpu_instances"]]
        if mig
        else []
    )
    whole = list(using.get((uuid, None), ()))
    return {
        "index": gpu["index"],
        "uuid": uuid,
        "name": gpu["name"],
        "memory": gpu["memory_total"],
        "mig": mig,
        "slots": _slots(gpu["mig_profiles"]) if mig else 0,
        "instances": sorted(instances, key=lambda instance: instance["start"]),
        "users": whole,
        "in_use": bool(whole) or any(instance["users"] for instance in instances),
        "fault": unfit.get((uuid, None), ""),
    }


def _slots(profiles: t.Iterable[t.Mapping[str, t.Any]]) -> int:
    return max(
        (_end(at, size) for profile in profiles for at, size in profile["placements"]), default=0
    )


def _end(at: int, size: int) -> int:
    """Return where a placement ends, in memory slices.

    Raises:
        ValueError: if no GPU has so many.
    """
    if not 0 <= at < at + size <= MOST_SLOTS:
        raise ValueError(f"a placement {at}:{size}")
    return at + size


def _instance(
    gpu: t.Mapping[str, t.Any],
    instance: t.Mapping[str, t.Any],
    using: Users,
    unfit: t.Mapping[Place, str],
) -> Json:
    place = (gpu["uuid"], instance["id"])
    _end(instance["start"], instance["size"])
    return {
        "id": instance["id"],
        "profile": instance["profile"],
        "start": instance["start"],
        "size": instance["size"],
        "devices": [each["uuid"] for each in gpu["mig_devices"] if each["gi_id"] == instance["id"]],
        "users": list(using.get(place, ())),
        "fault": unfit.get(place, ""),
    }
