# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The state of a device's MPS daemon, in a file that everybody may read, and for systemd."""

from __future__ import annotations

import copy
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ... import logs
from ...notify import notify
from ...state import StateFile
from ..paths import Names
from ..shares import Shares

STARTING, READY, FAILED, STOPPING = "starting", "ready", "failed", "stopping"
NOTES: Final = {READY: "READY=1", STOPPING: "STOPPING=1"}


class Report:
    """Writes the state as it changes. A disk that is full does not end the daemon."""

    def __init__(self, names: Names, pid: int) -> None:
        self._file = StateFile(Path(names.status), pid=pid)
        self._complained = False
        self._data: dict[str, Any] = {
            "device": names.device,
            "state": "",
            "since": "",
            "daemon": 0,
            "pipe": "",
            "clients_pipe": names.pipe,
            "own_shm": False,
            "multi_user": False,
            "replicas": 0,
            "limits": {"asked": {}, "default": {}, "read_back": {}},
            "servers": [],
            "clients": 0,
            "restarts": 0,
            "problem": "",
        }

    def shares(self, shares: Shares, own_shm: bool, multi_user: bool = False) -> None:
        """Tell what is asked for: the bounds of one share, and of a client that says nothing."""
        self._data["replicas"] = shares.replicas
        self._data.update(own_shm=own_shm, multi_user=multi_user)
        limits = self._data["limits"]
        limits["asked"], limits["default"] = asdict(shares.of(1)), asdict(shares.default)

    def pipe(self, own: str) -> None:
        """Tell the directory in which root reaches the control daemon."""
        self._data["pipe"] = own

    def limits(self, read_back: dict[str, str]) -> None:
        """Tell what the daemon said when it was asked for its limits."""
        self._data["limits"]["read_back"] = read_back

    def clients(self, servers: dict[int, tuple[int, ...]]) -> None:
        """Tell the servers and their clients."""
        self._data["servers"] = [
            {"pid": pid, "clients": list(clients)} for pid, clients in servers.items()
        ]
        self._data["clients"] = sum(map(len, servers.values()))
        self._write()

    def restarted(self) -> None:
        """Count a restart."""
        self._data["restarts"] += 1

    def state(self, state: str, daemon: int = 0, problem: str = "") -> None:
        """Tell the state, and systemd with it."""
        news = (state, problem) != (self._data["state"], self._data["problem"])
        if state != self._data["state"]:
            self._data["since"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._data.update(state=state, daemon=daemon, problem=problem)
        if not daemon:  # one that is silent may well have clients
            self._data.update(servers=[], clients=0, pipe="")
        if state != READY:
            self._data["limits"]["read_back"] = {}
        self._write()
        words = f"STATUS={state}: {problem}" if problem else f"STATUS={state}"
        notify(*filter(None, (NOTES.get(state), words.replace("\n", " "))))
        tell = logs.error if state == FAILED else logs.info
        if news:
            tell(
                f"MPS of {self._data['device']}: {state}",
                **({"problem": problem} if problem else {}),
            )

    def stopping(self, daemon: int, seconds: float) -> None:
        """Tell that the end may take so long."""
        notify(f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")
        self.state(STOPPING, daemon)

    def alive(self) -> None:
        """Tell systemd that the manager goes round; whether the daemon answers is the state."""
        notify("WATCHDOG=1")

    def remove(self) -> None:
        """Remove the file: there is no daemon, and none is wanted."""
        self._file.remove()

    def _write(self) -> None:
        try:
            self._file.write(copy.deepcopy(self._data))
            self._complained = False
        except OSError as error:
            if not self._complained:
                logs.warning("the state can't be written", cause=error)
            self._complained = True
