# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's cases on its disk, the present boot, and the node's clock."""

from __future__ import annotations

import time
import typing as t

from ..._machine.host import Host
from ..._node.machine.facts import MODULE, boot_id
from ..case import PATH, Boot, RepairCases, dump_cases, parse_cases

LOCK = "/run/gpu-node/locks/repair.lock"
LOCK_SECONDS = 30.0


class CaseFile:
    """The file with the cases."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read(self) -> RepairCases:
        """Return the cases.

        Raises:
            NodeError: if the file can't be read or is damaged.
        """
        return parse_cases(self._host.read(PATH))

    def change(self, change: t.Callable[[RepairCases], RepairCases]) -> RepairCases:
        """Write what ``change`` makes of the cases, in one step that no other run gets between, and return it.

        Raises:
            NodeError: if the file is damaged or can't be written, or another process keeps its lock.
        """
        with self._host.lock(LOCK, timeout=LOCK_SECONDS):
            before = self.read()
            after = change(before)
            if after != before:
                self._host.write(PATH, dump_cases(after), mode=0o600)
        return after


def observe_boot(host: Host) -> Boot:
    """Return the present boot, and the present load of the driver."""
    module = host.status(MODULE)
    return Boot(boot_id(host), str(module.inode) if module is not None else "")


def read_clock() -> float:
    """Return the node's clock, in seconds since 1970."""
    return time.time()
