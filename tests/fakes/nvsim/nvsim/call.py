# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One call of a client: its arguments, and what is to be stored through them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import handles
from .codes import (
    ARGUMENT_VERSION_MISMATCH,
    GPU_IS_LOST,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    NvError,
)
from .handles import Handle
from .state import Ci, Gi, Gpu
from .visibility import Eyes

if TYPE_CHECKING:
    from .engine import Engine

Function = Callable[["Call"], None]
FUNCTIONS: dict[str, Function] = {}
BEHIND = 8  # the shim's number for what an argument's first word points to


def api(*names: str) -> Callable[[Function], Function]:
    """Serve NVML functions."""

    def register(function: Function) -> Function:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return register


class Call:
    """A call as it came over the wire. ``pid`` and ``uid`` are the client's."""

    def __init__(
        self,
        engine: Engine,
        words: tuple[int, ...],
        inputs: dict[int, bytes],
        pid: int,
        uid: int,
    ) -> None:
        self.engine, self.words, self.inputs = engine, words, inputs
        self.pid, self.uid = pid, uid
        self.stores: list[tuple[int, bytes]] = []
        self.opened: set[int] = set()  # the GPUs of the handles that it gives out, by their indices

    # --- arguments ---

    def u32(self, at: int) -> int:
        """Return an unsigned argument; the upper half of the register is undefined."""
        return self.words[at] & 0xFFFFFFFF

    def text(self, at: int) -> str:
        """Return a text argument."""
        return self.inputs.get(at, b"").split(b"\0")[0].decode(errors="replace")

    def text_behind(self, at: int) -> str:
        """Return the text that the first word of a struct points to, empty for NULL."""
        return self.inputs.get(BEHIND + at, b"").split(b"\0")[0].decode(errors="replace")

    def number_in(self, at: int) -> int:
        """Return the number that a pointer argument pointed to, 0 for NULL."""
        return struct.unpack("<I", self.inputs[at][:4])[0] if at in self.inputs else 0

    def need(self, *at: int) -> None:
        """Refuse a call whose pointer arguments are NULL, before anything is done."""
        if not all(self.words[one] for one in at):
            raise NvError(INVALID_ARGUMENT)

    def below(self, at: int, most: int) -> int:
        """Return an argument that must be less than this, as one of an enumeration."""
        if self.u32(at) >= most:
            raise NvError(INVALID_ARGUMENT)
        return self.u32(at)

    def root_only(self) -> None:
        """Refuse everybody but root."""
        if self.uid != 0:
            raise NvError(NO_PERMISSION)

    def gpu(
        self, at: int = 0, *, mig_too: bool = True, alive: bool = True, in_order: bool = True
    ) -> Gpu:
        """Return the GPU of a device handle, or the parent GPU of a MIG device's.

        With ``alive`` False it may be lost, with ``in_order`` False it may want a reset.
        """
        kinds = (handles.GPU, handles.MIG) if mig_too else (handles.GPU,)
        handle = handles.decode(self.words[at], *kinds)
        if handle.kind == handles.MIG:
            return self.mig(at)[0]
        return self._alive(self.engine.gpu(handle.gpu), alive, in_order)

    def mig(self, at: int = 0) -> tuple[Gpu, Gi, Ci]:
        """Return the GPU, the GPU instance and the compute instance of a MIG device."""
        return self._ci(handles.decode(self.words[at], handles.MIG))

    def gpus(self) -> list[Gpu]:
        """Return the GPUs that the client sees, in the order of its indices."""
        eyes = Eyes(self.engine.root, self.pid)
        return [gpu for gpu in self.engine.store.gpus() if eyes.gpu(gpu)]

    def mig_devices(self, gpu: Gpu) -> list[tuple[Gi, Ci]]:
        """Return the MIG devices that the client sees, in the order of its indices."""
        eyes = Eyes(self.engine.root, self.pid)
        return [(gi, ci) for gi, ci in gpu.mig_devices() if eyes.mig(gpu, gi, ci)]

    def is_mig(self, at: int = 0) -> bool:
        """Return whether a device handle is a MIG device's."""
        return handles.decode(self.words[at], handles.GPU, handles.MIG).kind == handles.MIG

    def gi(self, at: int = 0) -> tuple[Gpu, Gi]:
        """Return a GPU instance and its GPU."""
        return self._gi(handles.decode(self.words[at], handles.GI))

    def ci(self, at: int = 0) -> tuple[Gpu, Gi, Ci]:
        """Return a compute instance with its GPU instance and GPU."""
        return self._ci(handles.decode(self.words[at], handles.CI))

    def _gi(self, handle: Handle) -> tuple[Gpu, Gi]:
        gpu = self._alive(self.engine.gpu(handle.gpu))
        for gi in gpu.driver.gis:
            if gi.id == handle.gi:
                return gpu, gi
        raise NvError(INVALID_ARGUMENT)

    def _ci(self, handle: Handle) -> tuple[Gpu, Gi, Ci]:
        gpu, gi = self._gi(handle)
        for ci in gi.cis:
            if ci.id == handle.ci:
                return gpu, gi, ci
        raise NvError(INVALID_ARGUMENT)

    @staticmethod
    def _alive(gpu: Gpu, alive: bool = True, in_order: bool = True) -> Gpu:
        if alive and gpu.driver.lost:
            raise NvError(GPU_IS_LOST)
        if alive and in_order and gpu.driver.reset_required:
            raise NvError(RESET_REQUIRED)
        return gpu

    # --- results ---

    def put(self, at: int, data: bytes) -> None:
        """Store bytes through a pointer argument; NULL is an invalid argument."""
        if not self.words[at]:
            raise NvError(INVALID_ARGUMENT)
        self.stores.append((at, data))

    def put_number(self, at: int, value: int, kind: str = "I") -> None:
        """Store a number; ``kind`` is a format of the struct module."""
        self.put(at, struct.pack(f"<{kind}", value))

    def put_text(self, at: int, length: int, text: str) -> None:
        """Store text into a buffer whose length is another argument."""
        self.need(at)
        data = text.encode() + b"\0"
        if len(data) > self.u32(length):
            raise NvError(INSUFFICIENT_SIZE)
        self.put(at, data)

    def put_struct(self, at: int, value: ctypes.Structure) -> None:
        """Store a struct."""
        self.put(at, bytes(value))

    def put_versioned(self, at: int, kind: type[Any], version: int, **fields: Any) -> None:
        """Store a struct whose first word the client set to its size and version."""
        self.need(at)
        word = self.number_in(at)
        if word != (ctypes.sizeof(kind) | version << 24):
            raise NvError(ARGUMENT_VERSION_MISMATCH)
        self.put_struct(at, fill(kind, version=word, **fields))

    def put_handle(self, at: int, handle: Handle) -> None:
        """Store a handle."""
        if handle.kind == handles.GPU:
            self.opened.add(handle.gpu)
        self.put_number(at, handles.encode(handle), "Q")

    def put_list(
        self, count_at: int, list_at: int, items: list[bytes], *, sizing_ok: bool = False
    ) -> None:
        """Answer the two-call protocol: the count alone, or the items when the buffer holds them."""
        self.need(count_at)
        room = self.number_in(count_at) if self.words[list_at] else 0
        self.put_number(count_at, len(items))
        if len(items) > room:
            if sizing_ok and not self.words[list_at]:
                return
            raise NvError(INSUFFICIENT_SIZE)
        if items:
            self.put(list_at, b"".join(items))


def fill(kind: type[Any], **fields: Any) -> Any:
    """Return a struct with these fields; some of pynvml's take none when they are made."""
    made = kind()
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def unsupported(_call: Call) -> None:
    """Answer a function that this hardware or simulation does not offer."""
    raise NvError(NOT_SUPPORTED)
