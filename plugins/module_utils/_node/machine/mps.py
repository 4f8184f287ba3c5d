# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MPS daemons, and servers without clients, which are ended for changes of their GPU."""

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
    """Return the states that the managers of MPS daemons have written."""
    for device in mps.devices(host.listdir(mps.FOLDER)):
        settings = host.read(mps.file(device))
        yield host.read(mps.state_file(device, settings))


def mps_daemons(host: Host) -> t.Tuple[mps.Daemon, ...]:
    """Return the MPS daemons, with their settings and the state that their manager has written."""
    daemons = []
    managed = mps.left(host.read(mps.MANAGER))
    for device in sorted({*managed, *mps.devices(host.listdir(mps.FOLDER))}):
        settings = host.read(mps.file(device))
        state = host.read(mps.state_file(device, settings, managed.get(device, "")))
        daemons.append(mps.daemon(device, settings, state))
    return tuple(daemons)


def end_server(host: Host, nvml: Nvml, gpu: Gpu, step: Step) -> None:
    """End an idle MPS server. The daemon is asked repeatedly, since requests at the same time interrupt each other.

    Raises:
        NodeError: if it does not end, since it has clients again.
    """
    pid, answer = step.params["pid"], ""
    env = {"CUDA_MPS_PIPE_DIRECTORY": step.params["pipe"]}
    deadline = time.monotonic() + SERVER_SECONDS
    while any(process.pid == pid for process in nvml.processes(gpu)):
        if time.monotonic() > deadline:
            cause = answer or "it does not end, so clients came meanwhile"
            hint = "see gpu-plugin mps status, end its clients, and run again"
            raise NodeError(f"{step.summary}: failed", cause=cause, hint=hint)
        completed = host.run(
            ["nvidia-cuda-mps-control"],
            check=False,
            env=env,
            stdin=f"shutdown_server {pid}\n",
            timeout=SERVER_SECONDS,
        )
        answer = (completed.err or completed.out).strip()
        time.sleep(0.5)
