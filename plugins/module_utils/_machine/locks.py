# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Locks that root alone can take: flock(2) needs no right to write, so nobody else may open the file or its folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
import typing as t

from .._base.errors import NodeError
from .._base.text.masking import masked_text
from .._base.text.shown import cut, printable

FOLDER = "locks"  # the name of folders that have locks alone, which are made private
FIRST_BYTES, PROC_LOCKS_BYTES = 400, 1 << 20
POLL_SECONDS = 0.2


@contextlib.contextmanager
def locked(path: str, timeout: float) -> t.Iterator[None]:
    """Hold an exclusive lock on a file, which is made if there is none and is its owner's alone.

    Raises:
        NodeError: if another process holds it for ``timeout`` seconds, or it can't be opened.
    """
    try:
        descriptor = _open(path)
    except OSError as error:
        hint = "move away what is there, then run again"
        raise NodeError(
            f"cannot open {path}", cause=error.strerror or str(error), hint=hint
        ) from error
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    hint = "wait until that process has ended, then run again"
                    problem = f"{path} is held by {holder(os.fstat(descriptor))}"
                    raise NodeError(problem, hint=hint) from None
                time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _open(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = os.path.dirname(path)
    if os.path.basename(folder) == FOLDER:
        _make_private(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), 0o700)
    descriptor = os.open(path, flags, 0o600)
    _make_private(os.dup(descriptor), 0o600)
    return descriptor


def _make_private(descriptor: int, mode: int) -> None:
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def holder(status: os.stat_result) -> str:
    """Return the process that holds a lock on a file, with its command, or "another process" if that is not known.

    The format of /proc/locks is in proc_locks(5). Lines of those that wait have one more field.
    """
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in _first("/proc/locks", PROC_LOCKS_BYTES).splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[1] == "FLOCK" and fields[5] == device:
            arguments = _first(f"/proc/{fields[4]}/cmdline", FIRST_BYTES).split("\0")
            command = cut(printable(masked_text(" ".join(arguments).strip())))
            return f"process {fields[4]}" + (f" ({command})" if command else "")
    return "another process"


def _first(path: str, size: int) -> str:
    try:
        with open(path, "rb") as stream:
            return stream.read(size).decode(errors="replace")
    except OSError:
        return ""
