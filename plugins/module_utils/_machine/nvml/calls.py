# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Calls of pynvml, which only this module imports, and whose errors become ours."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import typing as t

from ..._base.gpu import GPU_IS_LOST, NOT_SUPPORTED, RESET_REQUIRED, UNKNOWN_ERROR, NvmlError
from .bindings import of_environment

try:
    import pynvml
except ImportError:  # where the environment has none either, open_nvml says so
    pynvml = of_environment("pynvml")

__all__ = ["pynvml"]  # of what others import, the one thing that is not defined here
INVALID_ARGUMENT, VERSION_MISMATCH = 2, 25
MOST_LISTED = 4096  # a driver that says that there is more is not believed
T = t.TypeVar("T")
F = t.TypeVar("F", bound=t.Callable[..., t.Any])
# Is called when NVML has answered, in the thread that asked: a driver that answers slowly does not hang.
HEARD: contextvars.ContextVar[t.Callable[[], None]] = contextvars.ContextVar(
    "HEARD", default=lambda: None
)


def doing(task: str) -> t.Callable[[F], F]:
    """Decorate a function so that pynvml's errors become NvmlError with this task."""

    def wrap(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: t.Any, **kwargs: t.Any) -> t.Any:
            try:
                return function(*args, **kwargs)
            except pynvml.NVMLError as error:
                raise NvmlError(error.value, task) from error
            finally:
                HEARD.get()()

        return t.cast(F, wrapped)

    return wrap


def or_none(
    codes: t.Container[int], ask: t.Callable[..., t.Any], *args: t.Any, **more: t.Any
) -> t.Any:
    """Return an answer of NVML, None if it is one of these errors."""
    try:
        return ask(*args, **more)
    except pynvml.NVMLError as error:
        if error.value in codes:
            return None
        raise
    finally:
        HEARD.get()()


def reported(ask: t.Callable[..., T], *args: t.Any) -> t.Optional[T]:
    """Return an answer of NVML, None if the GPU or the driver has none.

    Raises:
        pynvml.NVMLError: if the GPU is lost or needs a reset.
    """
    try:
        return ask(*args)
    except pynvml.NVMLError as error:
        if error.value in (GPU_IS_LOST, RESET_REQUIRED):
            raise
        return None


def asking(name: str) -> t.Callable[..., t.Any]:
    """Return a function or structure of pynvml by name; its call raises "not supported" if the bindings lack it."""

    def call(*args: t.Any) -> t.Any:
        ask = getattr(pynvml, name, None)
        if ask is None:
            raise pynvml.NVMLError(NOT_SUPPORTED)
        return ask(*args)

    return call


def ask_text(ask: t.Callable[..., t.Any], *args: t.Any) -> str:
    """Return a text of NVML. What is not UTF-8 in it is replaced, since a driver may have read anything."""
    try:
        return text(ask(*args))
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")
    finally:
        HEARD.get()()


def listed(ask: t.Callable[..., t.Any], kind: t.Any, *args: t.Any) -> t.List[t.Any]:
    """Return the values of a function that is called for their number, then to fill an array."""
    count = ctypes.c_uint()
    ask(*args, None, ctypes.byref(count))
    if count.value > MOST_LISTED:
        raise pynvml.NVMLError(UNKNOWN_ERROR)
    array = (kind * count.value)()
    ask(*args, array, ctypes.byref(count))
    return list(array[: count.value])


def text(value: t.Any) -> str:
    """Return a text of NVML, which is bytes in older bindings."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def instance(number: t.Optional[int]) -> t.Optional[int]:
    """Return an instance's id, None if it is NVML's number for none."""
    return None if number in (None, 0xFFFFFFFF) else number
