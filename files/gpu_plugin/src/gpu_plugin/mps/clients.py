# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The processes that use an MPS daemon: clients with pods and limits, holders of its socket, servers, containers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._shared._base.kubelet import pods
from .._shared._base.text.shown import cut, printable
from ..model.mps.paths import Names
from ..tools.bounded import peek, peek_lines
from ..tools.files import started, stat_fields

PROC: Final = Path("/proc")
POD_LOGS: Final = Path("/var/log/pods")
MEMORY: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
THREADS: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
LONGEST_LIMIT: Final = 40
MOST_NAMED: Final = 5
FIRST: Final = "pid:[4026531836]"  # the kernel's number of the first namespace (PROC_PID_INIT_INO)
PIDFD_GETFD: Final = 438  # pidfd_getfd(2) has this number on every architecture
# Fields of /proc/<pid>/mountinfo: see proc_pid_mountinfo(5).
DEVICE: Final = 2
MOUNT_POINT: Final = 4
CREDENTIALS: Final = struct.Struct("3i")


@dataclass(frozen=True)
class Client:
    """A process. ``memory`` and ``threads`` are the limits in its environment, empty for the defaults."""

    pid: int
    pod: str = ""
    memory: str = ""
    threads: str = ""

    def __str__(self) -> str:
        limits = [self.memory, self.threads and f"{self.threads}%"]
        description = " ".join(filter(None, [self.pod, *limits]))
        return f"{self.pid} ({description})" if description else str(self.pid)


def look(pid: int, proc: Path = PROC, logs: Path = POD_LOGS) -> Client:
    """Return a client, as far as its process can be read."""
    folder = proc / str(pid)
    uid = pods.uid_of(peek(folder / "cgroup"), peek(proc / "1/cgroup"))
    env = _environment(pid, proc)
    names = [path.name for path in logs.iterdir()] if uid and logs.is_dir() else []
    pod = pods.name_of(uid, names) if uid else ""
    memory, threads = env.get(MEMORY, "").partition("=")[2], env.get(THREADS, "")
    return Client(pid, pod, *(printable(cut(limit, LONGEST_LIMIT)) for limit in (memory, threads)))


def holders(daemon: int) -> str:
    """Return which processes are connected to a control daemon, in words; empty if none is.

    It serves one at a time, so the process that sends nothing is among them. SO_PEERCRED of the daemon's
    own sockets names them, whatever namespace they are in (unix(7), pidfd_getfd(2)).
    """
    processes = dict(_peers(daemon))
    named = [_describe(pid, uid) for pid, uid in list(processes.items())[:MOST_NAMED]]
    more = [f"{len(processes) - MOST_NAMED} more"] if len(processes) > MOST_NAMED else []
    return ", ".join([*named, *more])


def own_folder(pid: int, names: Names) -> str:
    """Return a control daemon's own directory, empty if the process is no control daemon of this device."""
    env = _environment(pid)
    own = env.get("CUDA_MPS_PIPE_DIRECTORY", "")
    is_own = env.get("CUDA_MPS_LOG_DIRECTORY") == names.log and own.startswith(f"{names.ipc}/")
    return own if is_own else ""


def daemon(names: Names) -> tuple[int, str]:
    """Return a device's control daemon and its own directory, by all processes; 0 if there is none.

    Its servers have the same environment, and are in its session. Whatever a container runs may call
    itself so, but not in our namespace.
    """
    here = os.readlink(PROC / "self/ns/pid")
    for pid in _pids():
        with contextlib.suppress(OSError):
            folder = PROC / str(pid)
            ours = folder.stat().st_uid == os.geteuid() and os.readlink(folder / "ns/pid") == here
            if ours and stat_fields(pid)[3:4] == [str(pid)] and (own := own_folder(pid, names)):
                return pid, own
    return 0, ""


def servers(daemon: int) -> tuple[int, ...]:
    """Return the processes that a control daemon started. Clients have a server; without, none is."""
    parents = ((pid, stat_fields(pid)[1:3]) for pid in _pids())  # and the leaders of their groups
    return tuple(pid for pid, ancestors in parents if str(daemon) in ancestors and pid != daemon)


def sees_all() -> bool:
    """Return whether this process sees the processes of all containers, which in most containers it does not."""
    return os.readlink(PROC / "self/ns/pid") == FIRST


def tenant(system: int, inside: str, daemon: int, before: int = 0) -> int:
    """Return a process of a container that has a file system, by its device number, at a path; 0 if none has.

    That of ``before`` is looked at first. What the control daemon started has it too, and is none. A process with more
    mounts than are read may have it.
    """
    number, known = f"{os.major(system)}:{os.minor(system)}", {_space(daemon)}
    for pid in (before, *_pids()):
        space = _space(pid)
        if space not in known:
            known.add(space)
            lines, is_cut = peek_lines(PROC / str(pid) / "mountinfo")
            mounts = [fields for fields in map(str.split, lines) if len(fields) > MOUNT_POINT]
            # While a container is made, its root is a folder of the host's.
            if is_cut or any(
                fields[DEVICE] == number and fields[MOUNT_POINT].endswith(inside)
                for fields in mounts
            ):
                return pid
    return 0


def _space(pid: int) -> str:
    """Return the mount namespace of a process, empty if it has ended."""
    with contextlib.suppress(OSError):
        return os.readlink(PROC / str(pid) / "ns/mnt")
    return ""


def _pids() -> Iterator[int]:
    return (int(folder.name) for folder in PROC.iterdir() if folder.name.isdecimal())


def _environment(pid: int, proc: Path = PROC) -> dict[str, str]:
    entries = peek_lines(proc / str(pid) / "environ", "\0").lines
    pairs = (entry.split("=", 1) for entry in entries)
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def described(pids: Iterable[int]) -> str:
    """Return processes in words, without those that have ended."""
    descriptions = []
    for pid in sorted(pids):
        with contextlib.suppress(OSError):
            descriptions.append(_describe(pid, (PROC / str(pid)).stat().st_uid))
    return ", ".join(descriptions)


def _describe(pid: int, uid: int) -> str:
    name = printable(peek(PROC / str(pid) / "comm").rstrip("\n")) or "unknown"
    pod = look(pid).pod
    return f"process {pid} ({name} of user {uid}{f', pod {pod}' if pod else ''})"


def _peers(daemon: int) -> Iterator[tuple[int, int]]:
    """Return process and user of each living process at the other end of a daemon's sockets."""
    with contextlib.suppress(OSError), open(os.pidfd_open(daemon), "rb", 0) as process:
        for entry in (PROC / str(daemon) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(entry).startswith("socket:"):
                    with _duplicate(process.fileno(), int(entry.name)) as descriptor_copy:
                        descriptor_copy.getpeername()  # OSError: there is no other end
                        raw = descriptor_copy.getsockopt(
                            socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size
                        )
                        pid, uid, _gid = CREDENTIALS.unpack(raw)
                        if pid not in (0, daemon, os.getpid()) and started(pid):
                            yield pid, uid


def _duplicate(process: int, descriptor: int) -> socket.socket:
    libc = ctypes.CDLL(None, use_errno=True)
    duplicate = libc.syscall(PIDFD_GETFD, process, descriptor, 0)
    if duplicate < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=duplicate)
