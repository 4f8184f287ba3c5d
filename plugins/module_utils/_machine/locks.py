# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Locks that root alone can take: flock(2) needs no right to write, so nobody else may open the file or its folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import time
import typing as t

from .._base.errors import NodeError
from .._base.text.masking import masked_text
from .._base.text.shown import cut, printable

FOLDER = "locks"  # the name of folders that have locks alone, which are made private
NODE = f"/run/gpu-node/{FOLDER}/node.lock"  # held by the module that changes the node
NODE_SECONDS = 300.0
FIRST_BYTES, PROC_LOCKS_BYTES = 400, 1 << 20
POLL_SECONDS = 0.2
FLOCK = "hhqqi"  # struct flock, as 64-bit kernels have it
# Descriptors that the commands of this process inherit: pip goes on after its module was killed.
inherited: t.Set[int] = set()


@contextlib.contextmanager
def locked(path: str, timeout: float, *, inherit: bool = False) -> t.Iterator[None]:
    """Hold an exclusive lock on a file, which is made if there is none and is its owner's alone.

    Args:
        path: The file.
        timeout: How many seconds to wait for another process that holds it.
        inherit: Whether the commands of this process go on holding it if this process is killed.

    Raises:
        NodeError: if another process holds it for ``timeout`` seconds, or it can't be opened.
    """
    try:
        descriptor = _open(path)
    except OSError as error:
        problem, cause = f"cannot open {path}", error.strerror or str(error)
        hint = "move away what is there, then run again"
        raise NodeError(problem, cause=cause, hint=hint) from error
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
        os.utime(descriptor)  # since when it is held
        try:
            if inherit:
                inherited.add(descriptor)
            yield
        finally:
            inherited.discard(descriptor)
            # Explicitly, since a daemon that a command has started may have inherited the descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
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
    """Return the process that holds a lock on a file, with its command and since when.

    The format of /proc/locks is in proc_locks(5). Lines of processes that wait have one more field.

    Returns:
        "another process" if the process is not known. If the process has ended and its commands go on holding the
        lock, the first of them.
    """
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(status.st_mtime))
    for line in _first("/proc/locks", PROC_LOCKS_BYTES).splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[1] == "FLOCK" and fields[5] == device:
            pid, command = fields[4], _command(fields[4])
            if command:
                return f"process {pid} ({command}) since {since}"
            for heir in _heirs(f"{pid} {device} "):
                return f"process {heir} ({_command(heir)}), which process {pid} left behind, since {since}"
            return f"process {pid} since {since}"
    return "another process"


def _heirs(lock: str) -> t.Iterator[str]:
    """Yield the processes that inherited a lock, by the "lock" fields of proc_pid_fdinfo(5)."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            folder = f"/proc/{pid}/fdinfo"
            if any(lock in _first(f"{folder}/{name}", FIRST_BYTES) for name in os.listdir(folder)):
                yield pid


def _command(pid: str) -> str:
    arguments = _first(f"/proc/{pid}/cmdline", FIRST_BYTES).split("\0")
    return cut(printable(masked_text(" ".join(arguments).strip())))


def _first(path: str, size: int) -> str:
    try:
        with open(path, "rb") as stream:
            return stream.read(size).decode(errors="replace")
    except OSError:
        return ""


def record_lock_holder(path: str) -> t.Optional[int]:
    """Return the process that has locked a file by fcntl, or None; locks of this process don't count."""
    try:
        with open(path, "rb") as stream:
            asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            answer = fcntl.fcntl(stream, fcntl.F_GETLK, asked)
            kind, _whence, _start, _length, pid = struct.unpack(FLOCK, answer)
    except OSError:
        return None
    return None if kind == fcntl.F_UNLCK else int(pid)
