# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The simulated driver within a process that has pynvml: what the shim and the daemon are for all others."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pynvml
from nvsim import codes
from nvsim.call import Call
from nvsim.codes import NvError
from nvsim.daemon import Server
from nvsim.engine import Engine
from nvsim.state import Store, new_board

POINTER = type(ctypes.byref(ctypes.c_int()))
WORDS = 6


class Library(Server):
    """What pynvml takes for libnvidia-ml.so.1; ``asked`` is called with the name of each function."""

    def __init__(self, engine: Engine, asked: Callable[[str], object]) -> None:
        self.engine, self._asked = engine, asked

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            self._asked(name)
            return self._called(name, arguments)

        return function

    def nvmlShutdown(self) -> int:  # noqa: N802 - NVML's name
        return codes.SUCCESS

    def _called(self, name: str, arguments: tuple[Any, ...]) -> int:
        words, inputs = [0] * WORDS, dict[int, bytes]()
        for at, one in enumerate(arguments):
            words[at], behind = _word(one)
            if behind is not None:
                inputs[at] = behind
        call = Call(self.engine, tuple(words), inputs, os.getpid(), 0)
        driver = self.engine.store.driver
        try:
            code = self._run(name, call, driver.version if driver else "")
        except NvError as error:
            code = error.code
        if code in (codes.SUCCESS, codes.INSUFFICIENT_SIZE):
            for at, data in call.stores:
                ctypes.memmove(words[at], data, len(data))
        return code


def _word(one: Any) -> tuple[int, bytes | None]:
    """Return an argument as a register has it, and what it points to."""
    if isinstance(one, POINTER):
        one = one._obj
        return ctypes.addressof(one), bytes(one)
    if isinstance(one, ctypes.Array):
        return ctypes.addressof(one), bytes(one)
    if isinstance(one, bytes | ctypes.c_char_p):
        text = one if isinstance(one, bytes) else one.value
        return 1, text
    if isinstance(one, ctypes._Pointer):
        return ctypes.cast(one, ctypes.c_void_p).value or 0, None
    return int(getattr(one, "value", one) or 0), None


@contextlib.contextmanager
def driver(
    folder: Path, product: str = "h100-80", gpus: int = 1, asked: Callable[[str], object] = str
) -> Iterator[Engine]:
    """Let pynvml find a driver with such GPUs in a with statement."""
    store = Store(folder / "state", folder / "run")
    store.board = new_board(product, gpus)
    store.load_driver("550.163.01", "open")
    engine = Engine(store, str(folder / "root"))
    engine.render()
    with patch.multiple(pynvml, nvmlLib=Library(engine, asked), _nvmlGetFunctionPointer_cache={}):
        yield engine
