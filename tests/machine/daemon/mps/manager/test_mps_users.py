# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What users other than root can do with a device's MPS daemon, NVIDIA's genuine one."""

from __future__ import annotations

import os
import subprocess

from nvsim import genuine

from tests.fakes.mps.mps_running import Mps
from tests.support.waiting import eventually

NOBODY = 65534
THREADS = "default_active_thread_percentage"


def as_nobody(mps: Mps, command: str) -> str:
    """Return what another user is told; it may be lost, as the manager asks too."""
    pipe = str(mps.root / mps.uuid() / "ipc/pipe")
    program = os.open(genuine.mps_control(), os.O_RDONLY)  # the path to it may be closed to others
    try:
        return subprocess.run(
            ["nvidia-cuda-mps-control"],
            executable=f"/proc/self/fd/{program}",
            pass_fds=[program],
            input=f"{command}\n",
            env={"CUDA_MPS_PIPE_DIRECTORY": pipe},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
        ).stdout
    finally:
        os.close(program)


def test_every_user_reaches_the_daemon_and_root_alone_changes_it(mps: Mps) -> None:
    mps.run(mps.uuid(), "--replicas", 4, "--no-shm")
    daemon = mps.ready(mps.uuid())["daemon"]
    eventually(lambda: as_nobody(mps, f"get_{THREADS}") == "25.0\n")
    eventually(lambda: "Insufficient privileges" in as_nobody(mps, f"set_{THREADS} 90"))
    eventually(lambda: as_nobody(mps, f"get_{THREADS}") == "25.0\n")
    as_nobody(mps, "quit")
    assert mps.ready(mps.uuid())["daemon"] == daemon
    assert "somebody changed the limits" not in mps.log.read_text()
