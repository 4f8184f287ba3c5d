# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's cases on its disk, and what tells this start of the machine and of its driver from others."""

from __future__ import annotations

import time
import typing as t

from ..._machine.host import Host
from ..._node.machine.facts import BOOT_ID, MODULE
from .. import case, case_file

LOCK = "/run/gpu-node/locks/repair.lock"
LOCK_SECONDS = 30.0


class CaseFile:
    """The file with the cases."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read(self) -> case.Cases:
        """Return the cases. NodeError: the file can't be read or understood."""
        return case_file.parse(self._host.read(case.PATH))

    def change(self, change: t.Callable[[case.Cases], case.Cases]) -> case.Cases:
        """Write what ``change`` makes of the cases, in one step that no other run gets between, and return it.

        NodeError: as of ``read``, the file can't be written, or another process keeps its lock.
        """
        with self._host.lock(LOCK, timeout=LOCK_SECONDS):
            before = self.read()
            after = change(before)
            if after != before:
                self._host.write(case.PATH, case_file.dump(after), mode=0o600)
        return after


def boot(host: Host) -> case.Boot:
    """Return which boot this is, and which load of the driver."""
    loaded = host.status(MODULE)
    return case.Boot(
        (host.read(BOOT_ID) or "").strip(), str(loaded.inode) if loaded is not None else ""
    )


def now() -> float:
    """Return the node's clock, in seconds since 1970."""
    return time.time()
