# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Character devices by their numbers, whatever their nodes are called."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import stat
import struct
import typing as t

from .._base.knowledge import Absent, Knowledge, Known, Unknown

# statx(2): with DONT_SYNC a network file system answers from its cache, and does not wait for a server that is down.
AT_FDCWD, AT_STATX_DONT_SYNC, AT_SYMLINK_NOFOLLOW, STATX_TYPE = -100, 0x4000, 0x100, 0x1
STATX_BYTES = 256
MODE, DEVICE = struct.Struct("=28xH"), struct.Struct("=128xII")
# The attributes, and the mask of those that the kernel and the file system know.
ATTRIBUTES = struct.Struct("=8xQ40xQ")
IMMUTABLE, APPEND_ONLY, MOUNT_ROOT = 0x10, 0x20, 0x2000
FILE_SYSTEM = struct.Struct("=136xII")
NUMBER = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")
# Limits for a container's /dev, which a tenant can fill, and mount anything over.
FOLDERS, MOST_NODES, LONGEST_MOUNTS = (("dev",), ("dev", "nvidia-caps")), 4096, 1 << 20
IN_MEMORY = ("tmpfs", "devtmpfs")


class Device(t.NamedTuple):
    """The number of a character device."""

    major: int
    minor: int


def character_device(path: str) -> t.Optional[Device]:
    """Return the character device that a path, such as /proc/<pid>/fd/3, leads to; None for any other file."""
    return _number(_statx(path))


def attributes(path: str) -> int:
    """Return the attributes of a file or folder, by statx(2); 0 if there are none that are known."""
    answer = _statx(path, AT_SYMLINK_NOFOLLOW)
    if answer is None:
        return 0
    flags, known = ATTRIBUTES.unpack_from(answer)
    return int(flags & known)


def _number(answer: t.Optional[ctypes.Array[ctypes.c_char]]) -> t.Optional[Device]:
    if answer is None or not stat.S_ISCHR(MODE.unpack_from(answer)[0]):
        return None
    return Device(*DEVICE.unpack_from(answer))


def _statx(path: str, flags: int = 0) -> t.Optional[ctypes.Array[ctypes.c_char]]:
    answer = ctypes.create_string_buffer(STATX_BYTES)
    name = ctypes.c_char_p(os.fsencode(path))
    flags |= AT_STATX_DONT_SYNC
    failed = ctypes.CDLL(None).statx(AT_FDCWD, name, flags, STATX_TYPE, answer)
    return None if failed else answer


def devices_in_dev(pid: int) -> Knowledge[t.FrozenSet[Device]]:
    """Return the character devices that have a node in the /dev of a process's mount namespace.

    Only file systems in memory are listed, so no server of a tenant's file system is asked, and no link is followed.

    Returns:
        Absent if its /dev is this node's own, as with a hostPath volume.
    """
    numbers: t.Set[Device] = set()
    try:
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="replace") as stream:
            in_memory = _in_memory(stream.read(LONGEST_MOUNTS))
        own = _file_system("/dev")
        for folder in FOLDERS:
            with (
                contextlib.suppress(FileNotFoundError, NotADirectoryError),
                _folder(f"/proc/{pid}/root", *folder) as path,
            ):
                if _file_system(path) not in in_memory:
                    return Unknown(f"/dev of process {pid} is of a file system that is not asked")
                if folder == FOLDERS[0] and _file_system(path) == own:
                    return Absent()
                with os.scandir(path) as entries:
                    names = [entry.name for entry in itertools.islice(entries, MOST_NODES + 1)]
                if len(names) > MOST_NODES:
                    return Unknown(f"/dev of process {pid} has more than {MOST_NODES} names")
                nodes = (_number(_statx(f"{path}/{name}", AT_SYMLINK_NOFOLLOW)) for name in names)
                numbers.update(node for node in nodes if node)
    except (FileNotFoundError, ProcessLookupError):
        return Known(frozenset())  # the process has ended
    except OSError as error:
        return Unknown(f"/dev of process {pid} can't be read: {error.strerror}")
    return Known(frozenset(numbers))


def _in_memory(mounts: str) -> t.FrozenSet[str]:
    """Return the file systems in memory, such as 0:57, from proc_pid_mountinfo(5)."""
    systems = set()
    for line in mounts.splitlines():
        left, _mark, right = line.partition(" - ")
        if right.split(" ", 1)[0] in IN_MEMORY and len(left.split(" ", 3)) == 4:
            systems.add(left.split(" ", 3)[2])
    return frozenset(systems)


def _file_system(path: str) -> str:
    answer = _statx(path)
    return "" if answer is None else "{}:{}".format(*FILE_SYSTEM.unpack_from(answer))


@contextlib.contextmanager
def _folder(*parts: str) -> t.Iterator[str]:
    """Open a folder one level at a time, by no link but the first, and yield a path to it that can't be redirected."""
    descriptor = os.open(parts[0], os.O_PATH | os.O_DIRECTORY)
    try:
        for part in parts[1:]:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
            below = os.open(part, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def parse_majors(text: t.Optional[str], prefix: str, *, exact: bool = False) -> t.FrozenSet[int]:
    """Return the majors of the character devices whose names begin with a prefix, or are it, from /proc/devices."""
    lines = (text or "").partition("\nBlock devices:")[0].splitlines()
    pairs = (line.split() for line in lines)
    return frozenset(
        int(pair[0])
        for pair in pairs
        if len(pair) == 2 and pair[0].isdigit() and pair[1].startswith(prefix)
        if pair[1] == prefix or not exact
    )


def parse_number(text: t.Optional[str]) -> t.Optional[Device]:
    """Return the device number in a file ``dev`` of sysfs, such as "226:1"; None if there is none."""
    match = NUMBER.fullmatch((text or "").strip())
    return Device(int(match[1]), int(match[2])) if match else None
