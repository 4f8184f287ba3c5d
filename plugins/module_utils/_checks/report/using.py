# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who uses which GPU of a node, or which of its instances: processes, pods and claims."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.gpu import ComputeInstance, Gpu, GpuInstance, MigDevice
from ..._node.users.allocated import Allocation, Devices, places
from ..._node.users.users import User

Json = t.Dict[str, t.Any]
GPU_FIELDS = tuple(field.name for field in dataclasses.fields(Gpu))
MIG_FIELDS = tuple(field.name for field in dataclasses.fields(MigDevice))


def processes(gpus: t.Iterable[t.Mapping[str, t.Any]], users: t.Iterable[User]) -> t.List[Json]:
    """Return the processes that NVML tells of, and those that have a device node open and of which it does not.

    ``gpus`` are those of gpu_info, ``users`` name what runs a process. ``gpu`` is a UUID, empty where it is not known;
    ``gi_id`` and ``ci_id`` are None on a whole GPU.
    """
    known = {one.pid: one for one in users}
    found = [
        {
            **_process(one["pid"], one["name"], known.get(one["pid"])),
            "gpu": gpu["uuid"],
            "gi_id": one["gi_id"],
            "ci_id": one["ci_id"],
        }
        for gpu in gpus
        for one in gpu["processes"]
    ]
    told = {one["pid"] for one in found}
    rest = (one for pid, one in known.items() if pid not in told)
    nowhere = {"gpu": "", "gi_id": None, "ci_id": None}
    return [*found, *({**_process(one.pid, one.program, one), **nowhere} for one in rest)]


def _process(pid: int, name: str, user: t.Optional[User]) -> Json:
    return {
        "pid": pid,
        "name": name or (user.program if user else ""),
        "pod": user.pod if user else "",
        "container": str(user.container) if user and user.container else "",
        "unit": user.unit if user else "",
    }


def allocations(
    given: t.Iterable[Allocation], gpus: t.Iterable[t.Mapping[str, t.Any]]
) -> t.List[Json]:
    """Return what pods and claims have, each device with its places on the GPUs of gpu_info."""
    node = [_devices(one) for one in gpus]
    return [
        {
            **dataclasses.asdict(one),
            "places": [
                {"gpu": place.gpu, "gi_id": place.gi, "ci_id": place.ci}
                for place in places(one, node)
            ],
        }
        for one in given
    ]


def _devices(gpu: t.Mapping[str, t.Any]) -> Devices:
    return Devices(
        Gpu(**{name: gpu[name] for name in GPU_FIELDS}),
        tuple(_instance(one) for one in gpu["gpu_instances"]),
        tuple(MigDevice(**{name: one[name] for name in MIG_FIELDS}) for one in gpu["mig_devices"]),
    )


def _instance(one: t.Mapping[str, t.Any]) -> GpuInstance:
    cis = tuple(ComputeInstance(**each) for each in one["cis"])
    return GpuInstance(one["id"], one["profile_id"], one["start"], one["size"], cis)
