# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node's state beside its GPUs, for a report: the driver's support, who has what, faults, labels, pending reboots."""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from ..._base.gpu import ComputeInstance, Gpu, GpuInstance, MigDevice
from ..._base.text.json_data import is_whole, rows, table, table_in, text
from ..._device_plugin.resources import HEALTHY, count
from ..._driver import branches
from ..._driver.branches import Table, Version
from ..._node.users.allocated import Allocation, Devices, places
from ..._node.users.users import User
from ..validate.check import because

Json = t.Dict[str, t.Any]
Gpus = t.Iterable[t.Mapping[str, t.Any]]  # of gpu_info
XID_IN_REASON = re.compile(r"\bXID (\d{1,5})\b", re.IGNORECASE)
GPU_FIELDS = tuple(field.name for field in dataclasses.fields(Gpu))
MIG_FIELDS = tuple(field.name for field in dataclasses.fields(MigDevice))
NONE = type(None)
# What the device plugin says of a fault, by the types of JSON; ``since`` is in seconds since 1970.
FAULT: t.Mapping[str, t.Any] = {
    **dict.fromkeys(("gpu", "reason"), str),
    **dict.fromkeys(("index", "kind", "way_back", "verdict"), (str, NONE)),
    **dict.fromkeys(("gi", "ci", "since", "xid"), (int, NONE)),
    "clearable": (bool, NONE),
}


def driver(
    loaded: t.Optional[t.Mapping[str, t.Any]], table: t.Optional[Table], today: datetime.date
) -> Json:
    """Return the loaded driver's support and the bulletins about it as gpu.node.nvidia_driver does.

    It is empty where no driver is loaded; ``support`` and ``security`` are without a table.
    """
    if not loaded:
        return {}
    version = Version(str(loaded["version"]))
    return {
        "version": version,
        "type": loaded.get("kind", ""),
        "support": branches.support_status(version, table, today) if table else {},
        "security": branches.security_status(version, table) if table else {},
        "releases": branches.table_age(table, today) if table else {},
    }


def daemon(answer: str, problem: str = "") -> Json:
    """Read the answer of ``gpu-plugin status --json``; what can't be read of it is empty.

    ``problem`` is why there is none. Times are in seconds since 1970.
    """
    state = table_in(answer)
    labels, mig = table(state.get("labels")), table(state.get("mig_boot"))
    return {
        "daemon": {
            "state": text(state.get("state")),
            "problem": text(state.get("problem")) or problem,
            "registration_problem": text(state.get("registration_problem")),
            "resources": {
                name: _resource(table(resource))
                for name, resource in table(state.get("resources")).items()
            },
        },
        "faults": [_fault(table(row)) for row in rows(state.get("health"))],
        "labels": {
            "state": text(labels.get("state")),
            "problem": text(labels.get("problem")),
            "labels": {key: str(resource) for key, resource in table(labels.get("labels")).items()},
        },
        "mig_boot": {"state": text(mig.get("state")), "problems": rows(mig.get("problems"))},
        "unreadable": [str(row) for row in rows(state.get("unreadable"))],
    }


def _resource(resource: Json) -> Json:
    registered = resource.get("registered") is True
    return {
        "devices": count(resource),
        "healthy": count(resource, HEALTHY),
        "registered": registered,
    }


def _fault(fault_state: Json) -> Json:
    fault = {key: fault_state.get(key) for key in FAULT}
    if "xid" in fault_state:
        return {**fault, "xid": fault_state["xid"] if is_whole(fault_state["xid"]) else None}
    named = XID_IN_REASON.search(text(fault["reason"]))  # releases before 0.2 have no field for it
    return {**fault, "xid": int(named[1]) if named else None}


def reboots(packages: t.Optional[t.Sequence[str]], gpus: Gpus) -> t.List[str]:
    """Return why the node waits for a reboot, or a GPU for a reset.

    ``packages`` are those for which the distribution asks for one, None where it does not.
    """
    result = []
    if packages is not None:
        result.append(f"the distribution asks for it{because([', '.join(packages)])}")
    for gpu in gpus:
        if gpu["mig_current"] != gpu["mig_pending"]:
            mode = "on" if gpu["mig_pending"] else "off"
            why = "waits for a reset of the GPU or a reboot"
            result.append(f"GPU {gpu['index']}: MIG mode {mode} {why}")
    return result


def processes(gpus: Gpus, users: t.Iterable[User]) -> t.List[Json]:
    """Return the processes that NVML tells of, and those that have a device node open and of which it does not.

    ``gpus`` are those of gpu_info, ``users`` name what runs a process. ``gpu`` is a UUID, empty where it is not known;
    ``gi_id`` and ``ci_id`` are None on a whole GPU.
    """
    known = {user.pid: user for user in users}
    listed = [
        {
            **_process(process["pid"], process["name"], known.get(process["pid"])),
            "gpu": gpu["uuid"],
            "gi_id": process["gi_id"],
            "ci_id": process["ci_id"],
        }
        for gpu in gpus
        for process in gpu["processes"]
    ]
    pids = {process["pid"] for process in listed}
    unlisted = (process for pid, process in known.items() if pid not in pids)
    nowhere = {"gpu": "", "gi_id": None, "ci_id": None}
    return [
        *listed,
        *({**_process(process.pid, process.program, process), **nowhere} for process in unlisted),
    ]


def _process(pid: int, name: str, user: t.Optional[User]) -> Json:
    return {
        "pid": pid,
        "name": name or (user.program if user else ""),
        "pod": user.pod if user else "",
        "container": str(user.container) if user and user.container else "",
        "unit": user.unit if user else "",
    }


def allocations(reported: t.Iterable[Allocation], gpus: Gpus) -> t.List[Json]:
    """Return what pods and claims have, each device with its places on the GPUs of gpu_info."""
    node = [_devices(gpu) for gpu in gpus]
    return [
        {
            **dataclasses.asdict(allocation),
            "places": [
                {"gpu": place.gpu, "gi_id": place.gi, "ci_id": place.ci}
                for place in places(allocation, node)
            ],
        }
        for allocation in reported
    ]


def _devices(gpu: t.Mapping[str, t.Any]) -> Devices:
    return Devices(
        Gpu(**{name: gpu[name] for name in GPU_FIELDS}),
        tuple(_instance(gpu_instance) for gpu_instance in gpu["gpu_instances"]),
        tuple(
            MigDevice(**{name: mig_device[name] for name in MIG_FIELDS})
            for mig_device in gpu["mig_devices"]
        ),
    )


def _instance(instance: t.Mapping[str, t.Any]) -> GpuInstance:
    cis = tuple(ComputeInstance(**each) for each in instance["cis"])
    return GpuInstance(
        instance["id"], instance["profile_id"], instance["start"], instance["size"], cis
    )
