# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The quarantine on the node's disk, and the identities of the GPUs that answer."""

from __future__ import annotations

import typing as t

from ..._base.gpu import NvmlError
from ..._machine.host import Host
from ..._machine.nvml.readings import serial
from ..._machine.nvml.real import Nvml, open_nvml
from ..._machine.nvml.within import LATE, within
from ..quarantine import EMPTY, PATH, Quarantine, Seen, dump, parse

LOCK = "/run/gpu-node/locks/quarantine.lock"
LOCK_SECONDS = 30.0


class QuarantineFile:
    """The record of the quarantine."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read(self) -> Quarantine:
        """Return the quarantine.

        Raises:
            NodeError: if the file can't be read or is damaged.
        """
        return parse(self._host.read(PATH))

    def change(self, change: t.Callable[[Quarantine], Quarantine]) -> None:
        """Write the quarantine that ``change`` returns, under a lock; if it is empty, the file is removed.

        Raises:
            NodeError: if the file can't be read or written, or another process holds its lock.
        """
        with self._host.lock(LOCK, timeout=LOCK_SECONDS):
            before = self.read()
            after = change(before)
            if after == EMPTY:
                self._host.remove(PATH)
            elif after != before:
                self._host.write(PATH, dump(after), mode=0o644)


def seen(nvml: Nvml) -> t.Dict[int, Seen]:
    """Return the GPUs that answer, by NVML's index.

    Raises:
        NvmlError: if none do.
    """
    result = {}
    for gpu in nvml.gpus()[0]:
        try:
            number = serial(nvml.handle(gpu))
        except NvmlError:  # it was lost meanwhile
            number = ""
        result[gpu.index] = Seen(gpu.uuid, number, gpu.pci_bus_id)
    return result


def answering() -> t.Dict[int, Seen]:
    """Return the same from a driver that may hang.

    Raises:
        NvmlError: if it is not there, or does not answer in time.
    """

    def look() -> t.Dict[int, Seen]:
        with open_nvml() as nvml:
            return seen(nvml)

    return within(LATE, "looking at the GPUs", look)
