# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Character devices by their numbers, which the kernel opens them by, whatever their nodes are called."""

from __future__ import annotations

import ctypes
import os
import re
import stat
import struct
import typing as t

# statx(2): with DONT_SYNC a network file system answers from its cache, so that a server that is down hangs nobody.
AT_FDCWD, AT_STATX_DONT_SYNC, STATX_TYPE = -100, 0x4000, 0x1
STATX_BYTES = 256
MODE, DEVICE = struct.Struct("=28xH"), struct.Struct("=128xII")
NUMBER = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")


class Device(t.NamedTuple):
    """The number of a character device."""

    major: int
    minor: int


def character_device(path: str) -> t.Optional[Device]:
    """Return the character device that a path, such as /proc/<pid>/fd/3, leads to, None if it is none or is gone."""
    answer = ctypes.create_string_buffer(STATX_BYTES)
    name = ctypes.c_char_p(os.fsencode(path))
    if ctypes.CDLL(None).statx(AT_FDCWD, name, AT_STATX_DONT_SYNC, STATX_TYPE, answer) != 0:
        return None
    if not stat.S_ISCHR(MODE.unpack_from(answer)[0]):
        return None
    return Device(*DEVICE.unpack_from(answer))


def parse_majors(text: t.Optional[str], prefix: str) -> t.FrozenSet[int]:
    """Return the majors of the character devices whose names begin with a prefix, from /proc/devices."""
    lines = (text or "").partition("\nBlock devices:")[0].splitlines()
    pairs = (line.split() for line in lines)
    return frozenset(
        int(pair[0])
        for pair in pairs
        if len(pair) == 2 and pair[0].isdigit() and pair[1].startswith(prefix)
    )


def parse_number(text: t.Optional[str]) -> t.Optional[Device]:
    """Return a device number from a file ``dev`` of sysfs, such as "226:1"; None if it is none."""
    match = NUMBER.fullmatch((text or "").strip())
    return Device(int(match[1]), int(match[2])) if match else None
