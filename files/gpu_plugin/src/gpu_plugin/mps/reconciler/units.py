# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who runs the managers of MPS daemons: systemd, or this process where there is none."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from ..._shared._host.real import LocalHost
from ...tools import bounded, logs
from ...tools.state import started
from ..paths import settings_file
from .verdict import Act

BOOTED: Final = Path("/run/systemd/system")
SYSTEMD, OWN = "systemd", "own"
TIMEOUT: Final = 5.0  # for each of three verbs: the watchdog waits for 30 seconds
END_SECONDS: Final = 60.0
PAUSE: Final = 0.05
KEPT_FROM_MANAGERS: Final = ("NOTIFY_SOCKET", "WATCHDOG_", "MAINPID")

Managers = Mapping[str, int]


class Units(Protocol):
    """Managers by their device, with the processes that they are now, 0 where there is none.

    Only close() waits for what it asks for.
    """

    def ask(self, act: Act, managers: Managers) -> None:
        """Have these managers run, end and run again, or end."""

    def close(self, managers: Managers) -> None:
        """The daemon ends, and these are all managers."""


def choose(kind: str, folder: Path) -> Units:
    """Return who runs managers: ``kind`` says it, or is empty for systemd where it is the init."""
    if (kind or (SYSTEMD if BOOTED.is_dir() else OWN)) == SYSTEMD:
        return Systemd()
    return Children(folder)


class Systemd:
    """The units gpu-mps@UUID.service. They outlive this process."""

    def ask(self, act: Act, managers: Managers) -> None:
        names = [f"gpu-mps@{device}.service" for device in managers]
        command = ["systemctl", "--no-block", "--quiet", act.value, *names]
        done = LocalHost().run(command, check=False, timeout=TIMEOUT)
        if done.rc:
            problem = done.err.strip() or f"status {done.rc}"
            logs.error(f"systemd does not {act.value} MPS daemons", units=names, cause=problem)

    def close(self, managers: Managers) -> None:
        pass


class Children:
    """Managers as children of this process, for a container without systemd. They end with it.

    Those of a daemon that was killed may run on; they are taken over.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def ask(self, act: Act, managers: Managers) -> None:
        """One that is to end and run again is started the next time, when its clients have gone."""
        for device, pid in managers.items():
            if act is Act.START and not self._runs(device):
                self._start(device)
            elif act is not Act.START and _is_manager(pid, device):
                _signal(pid, signal.SIGTERM)

    def close(self, managers: Managers) -> None:
        """End them, have compute modes given back, and wait for it."""
        taken = [pid for device, pid in managers.items() if _is_manager(pid, device)]
        children = [one.pid for one in self._children.values() if one.poll() is None]
        living = {pid: started(pid) for pid in {*taken, *children}}
        for pid in living:
            _signal(pid, signal.SIGINT)
        deadline = time.monotonic() + END_SECONDS
        while any(started(pid) == began for pid, began in living.items() if began):
            if time.monotonic() > deadline:
                logs.warning("managers of MPS daemons still wait for clients", pids=list(living))
                return
            time.sleep(PAUSE)

    def _runs(self, device: str) -> bool:
        child = self._children.get(device)
        return child is not None and child.poll() is None

    def _start(self, device: str) -> None:
        path = settings_file(device, str(self._folder))
        command = [sys.executable, "-m", "gpu_plugin", "mps", "run", "--device", device]
        command += ["--settings", path]
        env = {k: v for k, v in os.environ.items() if not k.startswith(KEPT_FROM_MANAGERS)}
        try:
            self._children[device] = subprocess.Popen(command, env=env, start_new_session=True)
        except OSError as error:
            logs.error("can't start the manager of an MPS daemon", device=device, cause=error)


def _is_manager(pid: int, device: str) -> bool:
    """Tell whether a process is a device's manager: what a file says may be wrong."""
    command = bounded.peek(Path(f"/proc/{pid}/cmdline")).split("\0")
    return "mps" in command and device in command


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
