# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MPS servers without clients, which are no work and end where a change needs their GPU."""

from __future__ import annotations

import time
import typing as t

from ..._base.errors import NodeError
from ..._base.gpu import Gpu
from ..._base.services import mps
from ..._base.steps import Step
from ..._machine.host import Host
from ..._machine.nvml.real import Nvml

SERVER_SECONDS = 10.0


def states(host: Host) -> t.Iterator[t.Optional[str]]:
    """Return what the managers of MPS daemons tell."""
    for device in mps.devices(host.listdir(mps.FOLDER)):
        settings = host.read(mps.file(device))
        yield host.read(mps.state_file(device, settings))


def mps_daemons(host: Host) -> t.Tuple[mps.Daemon, ...]:
    """Return the MPS daemons, with their settings and what their manager tells of them."""
    daemons = []
    managed = mps.left(host.read(mps.MANAGER))
    for device in sorted({*managed, *mps.devices(host.listdir(mps.FOLDER))}):
        settings = host.read(mps.file(device))
        state = host.read(mps.state_file(device, settings, managed.get(device, "")))
        daemons.append(mps.daemon(device, settings, state))
    return tuple(daemons)


def end_server(host: Host, nvml: Nvml, gpu: Gpu, step: Step) -> None:
    """End an idle MPS server. NodeError: it does not end, since clients came meanwhile.

    The daemon is asked again and again: two who ask at once cut each other off.
    """
    pid, answer = step.params["pid"], ""
    env = {"CUDA_MPS_PIPE_DIRECTORY": step.params["pipe"]}
    deadline = time.monotonic() + SERVER_SECONDS
    while any(process.pid == pid for process in nvml.processes(gpu)):
        if time.monotonic() > deadline:
            cause = answer or "it does not end, so clients came meanwhile"
            hint = "see gpu-plugin mps status, end its clients, and run again"
            raise NodeError(f"{step.summary}: failed", cause=cause, hint=hint)
        asked = f"shutdown_server {pid}\n"
        completed = host.run(
            ["nvidia-cuda-mps-control"], check=False, env=env, stdin=asked, timeout=SERVER_SECONDS
        )
        answer = (completed.err or completed.out).strip()
        time.sleep(0.5)
