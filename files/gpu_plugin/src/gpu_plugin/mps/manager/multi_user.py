# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MPS servers for clients of all users: whether the installed control program has them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from ..._shared._core.errors import NodeError

PROGRAM: Final = "nvidia-cuda-mps-control"
OPTION: Final = "-multiuser-server"
NO_OPTION: Final = "-no-such-option"
SECONDS: Final = 5.0
PAUSE: Final = 0.02
HINT: Final = "remove multiUser from sharing.mps, or install a driver whose program has it"


def require(program: str = PROGRAM) -> None:
    """Return if the control program starts servers for several users. NodeError: why it does not.

    Its help names no options, so it is started with this one, in a folder of its own.
    """
    starts, output = _starts(program, OPTION)
    if not starts:
        raise NodeError(
            f"{program} has no servers for several users",
            cause=f"it does not take {OPTION}{f': {output}' if output else ''}",
            hint=HINT,
        )
    if _starts(program, NO_OPTION)[0]:
        raise NodeError(
            f"whether {program} supports a multi-user server is not known",
            cause=f"it takes any option, also {NO_OPTION}",
            hint=HINT,
        )


def _starts(program: str, option: str) -> tuple[bool, str]:
    """Return whether the program becomes a control daemon with an option, and its last words."""
    with tempfile.TemporaryDirectory(prefix="gpu-mps-") as folder, tempfile.TemporaryFile() as log:
        places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        try:
            process = subprocess.Popen(
                [program, "-f", option],
                env={**os.environ, **places},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise NodeError(f"can't start {program}", cause=error.strerror or "") from error
        deadline = time.monotonic() + SECONDS
        try:
            while process.poll() is None and not Path(folder, "control").exists():
                if time.monotonic() > deadline:
                    raise NodeError(f"{program} neither starts nor ends within {SECONDS:g} seconds")
                time.sleep(PAUSE)
            starts = process.poll() is None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        lines = log.read().decode(errors="replace").split("\n")
        return starts, next((line for line in reversed(lines) if line.strip()), "")
