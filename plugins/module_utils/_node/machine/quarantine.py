# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is in quarantine on the node's disk, and the GPUs that answer, by what outlives their slot."""

from __future__ import annotations

import typing as t

from ..._base.gpu import Gpu, NvmlError
from ..._machine.host import Host
from ..._machine.nvml.readings import serial
from ..._machine.nvml.real import Nvml, open_nvml
from ..._machine.nvml.within import LATE, within
from ..quarantine import EMPTY, PATH, Quarantine, Seen, dump, parse

LOCK = "/run/gpu-node/locks/quarantine.lock"
LOCK_SECONDS = 30.0


class QuarantineFile:
    """The file that says what is in quarantine."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read(self) -> Quarantine:
        """Return what is in quarantine. NodeError: the file can't be read or understood."""
        return parse(self._host.read(PATH))

    def change(self, change: t.Callable[[Quarantine], Quarantine]) -> None:
        """Write what ``change`` makes of it, in one step that no other run gets between; of nothing there is no file.

        NodeError: as of ``read``, the file can't be written, or another process keeps its lock.
        """
        with self._host.lock(LOCK, timeout=LOCK_SECONDS):
            before = self.read()
            after = change(before)
            if after == EMPTY:
                self._host.remove(PATH)
            elif after != before:
                self._host.write(PATH, dump(after), mode=0o644)


def seen(nvml: Nvml) -> t.Dict[int, Seen]:
    """Return the GPUs that answer, by NVML's index. NvmlError: none do."""
    return {gpu.index: Seen(gpu.uuid, _serial(nvml, gpu), gpu.pci_bus_id) for gpu in nvml.gpus()[0]}


def answering() -> t.Dict[int, Seen]:
    """Return the same of a driver that may hang. NvmlError: it is not there, or does not answer in time."""

    def look() -> t.Dict[int, Seen]:
        with open_nvml() as nvml:
            return seen(nvml)

    return within(LATE, "looking at the GPUs", look)


def _serial(nvml: Nvml, gpu: Gpu) -> str:
    try:
        return serial(nvml.handle(gpu))
    except NvmlError:  # it went meanwhile
        return ""
