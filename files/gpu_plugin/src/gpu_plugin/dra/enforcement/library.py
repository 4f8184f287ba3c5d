# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a library can be given to tenants: what its ELF header says, and who may change it."""

from __future__ import annotations

import os
import platform
import stat
import struct
from pathlib import Path
from typing import Final

from ...mps import folders

MACHINES: Final = {"x86_64": 62, "aarch64": 183}  # e_machine of elf(5)
SHARED: Final = 3  # e_type
HEADER: Final = struct.Struct("<4sBBBB8xHH")


def problem_of(path: Path) -> str:
    """Return why tenants can't be given a library, empty where they can."""
    try:
        real = path.resolve(strict=True)
        found = real.stat()
        header = _beginning(real) if stat.S_ISREG(found.st_mode) else b""
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is not a file"
    if why := header_problem(header, platform.machine()):
        return f"{path} {why}"
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {found.st_uid}, and tenants run it"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write {path} (mode {stat.S_IMODE(found.st_mode):o}), and tenants run it"
    if not found.st_mode & stat.S_IROTH:
        return f"tenants may not read {path} (mode {stat.S_IMODE(found.st_mode):o})"
    return folders.who_writes(real.parent)


def _beginning(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(HEADER.size)


def header_problem(header: bytes, machine: str) -> str:
    """Return what is wrong with the beginning of a shared library for an architecture. Pure."""
    if len(header) < HEADER.size:
        return "is no ELF file"
    magic, bits, order, _version, _abi, kind, built_for = HEADER.unpack_from(header)
    if magic != b"\x7fELF":
        return "is no ELF file"
    if (bits, order) != (2, 1) or built_for != MACHINES.get(machine):
        return f"is not built for {machine}"
    return "" if kind == SHARED else "is no shared library"
