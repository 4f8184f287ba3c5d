# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MPS servers of ours that have no clients: a change of a GPU ends them, and they are no work."""

from __future__ import annotations

import dataclasses
import typing as t

from ..gpu import Process
from ..steps import Step
from ..text import json_data
from .plan import IDLE, GpuPlan, GpuState

PROGRAM = "nvidia-cuda-mps-control"
SERVER = "nvidia-cuda-mps-server"
ACTION = "end_mps_server"


@dataclasses.dataclass(frozen=True)
class Server:
    """An MPS server, where it runs, and where its control daemon is asked."""

    process: Process
    pipe: str


def idle_servers(states: t.Iterable[t.Optional[str]]) -> t.Dict[int, str]:
    """Return by process the servers without clients that managers report, with their pipe folders."""
    found: t.Dict[int, str] = {}
    for text in states:
        try:
            state = json_data.loads(text or "{}")
            pipe = str(state.get("pipe", ""))
            found.update(
                {int(one["pid"]): pipe for one in state.get("servers", ()) if not one["clients"]}
            )
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            continue  # not the state of a manager of ours
    return found


def without_idle(
    state: GpuState, idle: t.Mapping[int, str]
) -> t.Tuple[GpuState, t.Tuple[Server, ...]]:
    """Return a GPU without its idle servers, and those."""
    servers = tuple(
        Server(one, idle[one.pid])
        for one in state.processes
        if one.pid in idle and one.name.endswith(SERVER)
    )
    gone = {one.process.pid for one in servers}
    others = tuple(one for one in state.processes if one.pid not in gone)
    return dataclasses.replace(state, processes=others), servers


def ends(plan: GpuPlan, servers: t.Sequence[Server]) -> t.Tuple[Step, ...]:
    """Return what ends the idle servers that are in the way of a plan."""
    needing = [step for step in plan.steps if set(IDLE) & set(step.needs)]
    return tuple(
        Step(
            ACTION,
            f"GPU {plan.gpu.index}: end the MPS server {one.process.pid}, which has no clients",
            {"gpu": plan.gpu.uuid, "pid": one.process.pid, "pipe": one.pipe},
        )
        for one in servers
        if one.process.gpu_uuid == plan.gpu.uuid
        and any(_touches(step, one.process) for step in needing)
    )


def _touches(step: Step, process: Process) -> bool:
    """Tell whether a step needs an instance empty, or the whole GPU, that a process is on."""
    for key, at in (("gi", process.gi_id), ("ci", process.ci_id)):
        if at is not None and step.params.get(key, at) != at:
            return False
    return True
