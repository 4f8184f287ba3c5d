# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Wait for what a GPU reports of its own accord: XIDs, the driver's numbers for errors."""

from __future__ import annotations

import contextlib
import ctypes
import typing as t

from .._core.gpu import NOT_SUPPORTED, TIMEOUT, NvmlError
from .calls import doing, or_none, pynvml, text

NO_INSTANCE = 0xFFFFFFFF


class Xid(t.NamedTuple):
    """An XID that a GPU reported; the ids of instances are None where it concerns the whole GPU."""

    gpu_uuid: str
    number: int
    gi_id: t.Optional[int] = None
    ci_id: t.Optional[int] = None


class XidWatch:
    """An NVML event set for some GPUs. To be used while NVML is open, and closed before it is."""

    def __init__(self, gpu_uuids: t.Iterable[str]) -> None:
        self.failed: t.Dict[str, NvmlError] = {}
        self._uuids: t.Dict[t.Optional[int], str] = {}
        self._set = self._create()
        for uuid in gpu_uuids:
            try:
                self._register(uuid)
            except NvmlError as error:
                if error.code != NOT_SUPPORTED:
                    self.failed[uuid] = error

    @staticmethod
    @doing("creating an event set")
    def _create() -> t.Any:
        return pynvml.nvmlEventSetCreate()

    @doing("asking for a GPU's events")
    def _register(self, uuid: str) -> None:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        wanted = pynvml.nvmlEventTypeXidCriticalError
        if not pynvml.nvmlDeviceGetSupportedEventTypes(handle) & wanted:
            return
        pynvml.nvmlDeviceRegisterEvents(handle, wanted, self._set)
        self._uuids[_address(handle)] = uuid

    @doing("waiting for events")
    def wait(self, seconds: float) -> t.Optional[Xid]:
        """Return the next XID, or None when none came in time."""
        milliseconds = int(seconds * 1000)
        event = or_none((TIMEOUT,), pynvml.nvmlEventSetWait_v2, self._set, milliseconds)
        if event is None:
            return None
        gi, ci = (
            None if number == NO_INSTANCE else int(number)
            for number in (event.gpuInstanceId, event.computeInstanceId)
        )
        uuid = self._uuids.get(_address(event.device))  # a GPU that is lost can't be asked any more
        if uuid is None:
            uuid = text(pynvml.nvmlDeviceGetUUID(event.device))
        return Xid(uuid, int(event.eventData), gi, ci)

    def close(self) -> None:
        """Give the event set back."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlEventSetFree(self._set)


def _address(handle: t.Any) -> t.Optional[int]:
    return ctypes.cast(handle, ctypes.c_void_p).value
