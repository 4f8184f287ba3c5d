# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The state of a device's MPS daemon, in a file that everybody may read, and for systemd."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ... import logs
from ...notify import notify
from ...state import StateFile
from ..paths import Names
from ..shares import Shares
from ..state import EMPTY, FAILED, READY, STOPPING

NOTES: Final = {READY: "READY=1", STOPPING: "STOPPING=1"}


class Report:
    """Writes the state as it changes. A disk that is full does not end the daemon."""

    def __init__(self, names: Names, pid: int | None = None) -> None:
        self._file = StateFile(Path(names.status), pid=pid)
        self._complained = False
        self._data = {**EMPTY, "device": names.device, "clients_pipe": names.pipe}

    def shares(self, shares: Shares, own_shm: bool, multi_user: bool = False) -> None:
        """Tell what is asked for: the bounds of one share, and of a client that says nothing."""
        self._data.update(replicas=shares.replicas, own_shm=own_shm, multi_user=multi_user)
        self.limits(asked=asdict(shares.of(1)), default=asdict(shares.default))

    def limits(self, **limits: Mapping[str, Any]) -> None:
        """Tell what is ``asked``, the ``default``, or what the daemon said when these were ``read_back``."""
        self._data["limits"] = {**self._data["limits"], **limits}

    def clients(self, servers: dict[int, tuple[int, ...]]) -> None:
        """Tell the servers and their clients."""
        self._data["servers"] = [
            {"pid": pid, "clients": list(clients)} for pid, clients in servers.items()
        ]
        self._data["clients"] = sum(map(len, servers.values()))
        self._write()

    def failed(self, problem: str) -> None:
        """Tell why the daemon ended, which counts as a restart."""
        self._data["restarts"] += 1
        self.state(FAILED, problem=problem)

    def state(self, state: str, daemon: int = 0, problem: str = "", pipe: str = "") -> None:
        """Tell the state, and systemd with it. ``pipe`` is where root reaches a daemon that begins."""
        before = (self._data["state"], self._data["problem"])
        if state != before[0]:
            self._data["since"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._data.update(state=state, daemon=daemon, problem=problem)
        if pipe or not daemon:
            self._data["pipe"] = pipe
        if not daemon:  # one that is silent may well have clients
            self._data.update(servers=[], clients=0)
        if state != READY:
            self.limits(read_back={})
        self._write()
        words = f"STATUS={state}: {problem}" if problem else f"STATUS={state}"
        notify(*filter(None, (NOTES.get(state), words.replace("\n", " "))))
        if (state, problem) != before:
            log = logs.error if state == FAILED else logs.info
            fields = {"problem": problem} if problem else {}
            log(f"MPS of {self._data['device']}: {state}", **fields)

    def remove(self) -> None:
        """Remove the file: there is no daemon, and none is wanted."""
        self._file.remove()

    def _write(self) -> None:
        try:
            self._file.write(dict(self._data))
            self._complained = False
        except OSError as error:
            if not self._complained:
                logs.warning("the state can't be written", cause=error)
            self._complained = True
