# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""End an MPS server that has no clients. Its control daemon starts another for the next one."""

from __future__ import annotations

import time

from ..._core.errors import NodeError
from ..._core.gpu import Gpu
from ..._core.mig.mps import PROGRAM
from ..._core.steps import Step
from ..._host.api import Host
from ..._nvml.api import Nvml

SECONDS = 10.0
AGAIN_SECONDS = 0.5


def end_server(host: Host, nvml: Nvml, gpu: Gpu, step: Step) -> None:
    """End a step's server. NodeError: it does not end, since clients came meanwhile.

    The daemon is asked again and again: two who ask at once cut each other off.
    """
    pid, told = step.params["pid"], ""
    env = {"CUDA_MPS_PIPE_DIRECTORY": step.params["pipe"]}
    deadline = time.monotonic() + SECONDS
    while any(one.pid == pid for one in nvml.processes(gpu)):
        if time.monotonic() > deadline:
            raise NodeError(
                f"{step.summary}: failed",
                cause=told or "it does not end, so clients came meanwhile",
                hint="see gpu-plugin mps status, end its clients, and run again",
            )
        asked = f"shutdown_server {pid}\n"
        done = host.run([PROGRAM], check=False, env=env, stdin=asked, timeout=SECONDS)
        told = (done.err or done.out).strip()
        time.sleep(AGAIN_SECONDS)
