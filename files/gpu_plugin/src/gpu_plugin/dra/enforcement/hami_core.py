# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Shares limited by HAMi-core: a library of the user's, which intercepts CUDA in each process."""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..._shared._base.dra.names import HAMI_CORE
from ..._shared._base.errors import NodeError
from ..._shared._machine.writers import who_writes
from ...model.quantity import MIB
from ...mps import folders
from ...tools import files
from ..values import Edits, Enforcement, Mount, Share

# Beside each other: nothing is mounted into what a tenant may write.
LIBRARY: Final = "/usr/local/vgpu/libvgpu.so"
CACHE: Final = "/usr/local/vgpu/cache"
LOCK: Final = "/tmp/vgpulock"
PRELOAD: Final = "/etc/ld.so.preload"
# The library maps a region of about a MiB, and has a lock file. Both are the container's own: the
# runtime makes them, they count as its memory and go with it, and root never looks into them.
OPTIONS: Final = ("rw", "nosuid", "nodev", "noexec", "mode=1777", "size=32m", "nr_inodes=256")
OWN: Final = tuple(Mount("tmpfs", path, OPTIONS, "tmpfs") for path in (CACHE, LOCK))

MACHINES: Final = {"x86_64": 62, "aarch64": 183}  # e_machine of elf(5)
SHARED: Final = 3  # e_type
HEADER: Final = struct.Struct("<4sBBBB8xHH")
CHUNK: Final = 1 << 20


class HamiCore(Enforcement):
    """``folder`` has what all containers get alike, ``scaled``: shares may swap to the node's memory.

    ``sha256`` is the digest that the library must have, empty if any will do.
    """

    name = HAMI_CORE

    def __init__(self, library: str, folder: Path, *, scaled: bool, sha256: str = "") -> None:
        self._library, self._scaled = Path(library), scaled
        self._preload, self._sha256 = folder / "ld.so.preload", sha256
        self._digest: tuple[tuple[int, ...], str] = ((), "")  # of which state of the file

    def problem(self, gpu_uuid: str) -> str:
        """Return why the library can't be given to tenants."""
        if not self._library.name:
            return "gpuNode.dra.hamiCore.library names no library"
        return problem_of(self._library) or self._digest_problem()

    def _digest_problem(self) -> str:
        """Return how the library differs from the one that is expected, empty if it does not."""
        if not self._sha256:
            return ""
        try:
            status = self._library.stat()
            times = (status.st_mtime_ns, status.st_ctime_ns)
            state = (status.st_dev, status.st_ino, status.st_size, *times)
            if self._digest[0] != state:
                digest = hashlib.sha256()
                with self._library.open("rb") as stream:
                    while chunk := stream.read(CHUNK):
                        digest.update(chunk)
                self._digest = state, digest.hexdigest()
        except OSError as error:
            return f"{self._library}: {error.strerror or error}"
        if self._digest[1] == self._sha256:
            return ""
        return f"{self._library} has the SHA-256 {self._digest[1]}, and {self._sha256} is expected"

    def prepare(self, shares: Sequence[Share]) -> Edits:
        """Return the library with its limits, and a bounded place of the container's own that it writes to."""
        if why := self.problem(""):
            raise NodeError("HAMi-core can't limit shares", cause=why)
        env = environment(shares, scaled=self._scaled)
        self._write_preload()
        library = Mount(str(self._library.resolve()), LIBRARY)
        return Edits(env, (*OWN, library, Mount(str(self._preload), PRELOAD)))

    def restore(self, live: Sequence[Share]) -> None:
        """Write the file that containers have mounted, which a boot has removed."""
        if live:
            self._write_preload()

    def _write_preload(self) -> None:
        """Write the file if its content differs: it keeps its inode, since containers have it mounted."""
        folders.folder(self._preload.parent, 0o755)
        with files.failing(f"can't write {self._preload}"):
            files.keep(self._preload, f"{LIBRARY}\n")


def environment(shares: Sequence[Share], *, scaled: bool) -> dict[str, str]:
    """Return the variables that HAMi-core reads. It numbers GPUs as CUDA does, which nobody knows beforehand. Pure.

    Raises:
        NodeError: if the shares are not one of each GPU, or not alike, so that the numbers would matter.
    """
    if len({share.gpu_uuid for share in shares}) != len(shares):
        raise _refused(shares, "are of one GPU", "it limits GPUs, each once")
    if len({(share.memory, share.cores, share.priority) for share in shares}) != 1:
        raise _refused(shares, "differ", "it numbers GPUs as CUDA does, and the limits with them")
    first_share = shares[0]
    if first_share.memory < MIB:
        raise NodeError(
            f"a share of {first_share.memory} bytes can't be had", cause="HAMi-core limits MiB"
        )
    memory = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{n}": f"{first_share.memory // MIB}m" for n in range(len(shares))
    }
    return {
        **memory,
        **({"CUDA_DEVICE_SM_LIMIT": str(min(first_share.cores, 100))} if first_share.cores else {}),
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{CACHE}/gpu.cache",
        "CUDA_TASK_PRIORITY": str(first_share.priority),
        **({"CUDA_OVERSUBSCRIBE": "true"} if scaled else {}),
    }


def _refused(shares: Sequence[Share], refusal: str, cause: str) -> NodeError:
    return NodeError(
        f"{len(shares)} shares of a claim {refusal}, which HAMi-core can't limit",
        cause=cause,
        hint="ask for them in one request with count, or in a claim for each container",
    )


def problem_of(path: Path) -> str:
    """Return why tenants can't be given a library, empty if they can."""
    try:
        real = path.resolve(strict=True)
        status = real.stat()
        if not stat.S_ISREG(status.st_mode):
            return f"{path} is not a file"
        with real.open("rb") as stream:
            header = stream.read(HEADER.size)
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if why := header_problem(header, platform.machine()):
        return f"{path} {why}"
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {status.st_uid}, and tenants run it"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return (
            f"others may write {path} (mode {stat.S_IMODE(status.st_mode):o}), and tenants run it"
        )
    if not status.st_mode & stat.S_IROTH:
        return f"tenants may not read {path} (mode {stat.S_IMODE(status.st_mode):o})"
    return who_writes(real.parent)


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
