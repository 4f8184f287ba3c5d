# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Starts the manager of MPS daemons: by systemd, or as a child of the plugin in a container without it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Protocol

from .._shared._machine.host import Host
from ..tools import bounded, logs
from ..tools.chores import Worker
from ..tools.files import started

UNIT: Final = "gpu-mps.service"
BOOTED: Final = Path("/run/systemd/system")
SYSTEMD, OWN = "systemd", "own"
TIMEOUT: Final = 20.0
END_SECONDS: Final = 60.0
PAUSE: Final = 0.05
KEPT_FROM_MANAGER: Final = ("NOTIFY_SOCKET", "WATCHDOG_", "MAINPID")


class Units(Protocol):
    """Starts the manager, which reads the settings by itself. Only close() waits for the effect of a request."""

    def run(self) -> None:
        """Start the manager: none runs."""

    def close(self, manager: int) -> None:
        """Do what is due at the plugin's end; ``manager`` is the manager's process, 0 if none runs."""


def choose(kind: str, folder: Path) -> Units:
    """Return who runs the manager: the ``kind``, or if that is empty systemd where it is the init."""
    if (kind or (SYSTEMD if BOOTED.is_dir() else OWN)) == SYSTEMD:
        return Systemd()
    return Children(folder)


class Systemd:
    """The unit gpu-mps.service. It outlives this process."""

    def __init__(self) -> None:
        self._worker = Worker("systemctl")

    def run(self) -> None:
        """Start the unit in another thread: a slow systemd must not hold up the plugin."""
        self._worker.start(self._start)

    def _start(self) -> None:
        command = ["systemctl", "--no-block", "--quiet", "start", UNIT]
        try:
            completed = Host().run(command, check=False, timeout=TIMEOUT)
            problem = "" if not completed.rc else completed.err.strip() or f"status {completed.rc}"
        except Exception as error:  # the thread has to go on
            problem = str(error)
        if problem:
            logs.error("systemd does not start the MPS manager", unit=UNIT, cause=problem)

    def close(self, manager: int) -> None:
        pass


class Children:
    """The manager as a child of this process, for a container without systemd. It ends with it.

    That of a plugin that was killed may run on; it is taken over.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        if self._child is not None and self._child.poll() is None:
            return
        command = [
            *(sys.executable, "-m", "gpu_plugin", "mps", "run"),
            "--settings",
            str(self._folder),
        ]
        env = {k: v for k, v in os.environ.items() if not k.startswith(KEPT_FROM_MANAGER)}
        try:
            self._child = subprocess.Popen(command, env=env, start_new_session=True)
        except OSError as error:
            logs.error("can't start the MPS manager", cause=error)

    def close(self, manager: int) -> None:
        """End all daemons, let their manager restore compute modes, and wait for it."""
        child = self._child.pid if self._child is not None and self._child.poll() is None else 0
        # What a file says of the manager may be wrong.
        argv = bounded.peek_lines(Path(f"/proc/{manager}/cmdline"), "\0").lines if manager else []
        pids = {child, manager if {"mps", "run"} <= {*argv} else 0} - {0}
        living = {pid: started(pid) for pid in pids}
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + END_SECONDS
        while any(started(pid) == began for pid, began in living.items() if began):
            if time.monotonic() > deadline:
                logs.warning("the MPS manager still waits for clients", pids=list(living))
                return
            time.sleep(PAUSE)
