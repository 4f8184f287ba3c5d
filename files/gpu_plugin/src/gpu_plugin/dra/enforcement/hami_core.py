# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Shares limited by HAMi-core: a library of the user's, which intercepts CUDA in each process."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..._shared._core.dra.names import HAMI_CORE
from ..._shared._core.errors import InputError, NodeError
from ..._shared._host.api import Host
from ...mps import folders
from ...tools import files, logs
from ..values import Edits, Mount, Share
from .library import problem_of

MIB: Final = 1 << 20
# Beside each other: nothing is mounted into what a tenant may write.
LIBRARY: Final = "/usr/local/vgpu/libvgpu.so"
CACHE: Final = "/usr/local/vgpu/cache"
LOCK: Final = "/tmp/vgpulock"
PRELOAD: Final = "/etc/ld.so.preload"
# The library maps one region of about a MiB a GPU, and has a lock file.
BOUNDS: Final = "size=32m,nr_inodes=256"
READ_WRITE: Final = ("rw", "nosuid", "nodev", "noexec", "bind")
UID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
TIMEOUT: Final = 30
CONTEXT: Final = folders.LABEL.decode().rstrip("\0")


class HamiCore:
    """``folder`` gets a small file system for each claim, ``scaled``: shares may swap to the node's memory."""

    name = HAMI_CORE

    def __init__(self, library: str, folder: Path, *, scaled: bool) -> None:
        self._library, self._folder, self._scaled = Path(library), folder, scaled

    def problem(self, gpu_uuid: str) -> str:
        """Return why the library can't be given to tenants."""
        if not self._library.name:
            return "gpuNode.dra.hamiCore.library names no library"
        return problem_of(self._library)

    def prepare(self, shares: Sequence[Share]) -> Edits:
        """Return the library with its limits, and a folder of the claim's own for what it writes."""
        if why := self.problem(""):
            raise NodeError("HAMi-core can't limit shares", cause=why)
        env = environment(shares, scaled=self._scaled)
        claim = self._claim(shares[0].claim)
        with folders.failing(f"can't write in {self._folder}"):
            self._make(claim)
            files.keep(self._preload, f"{LIBRARY}\n")
        mounts = (
            Mount(str(claim / "cache"), CACHE, READ_WRITE),
            Mount(str(claim / "lock"), LOCK, READ_WRITE),
            Mount(str(self._library.resolve()), LIBRARY),
            Mount(str(self._preload), PRELOAD),
        )
        return Edits(env, mounts)

    def unprepare(self, shares: Sequence[Share]) -> None:
        """Remove what claims wrote. What is inside is not looked at: it goes with its file system."""
        for uid in dict.fromkeys(one.claim for one in shares):
            self._remove(self._claim(uid))

    def restore(self, live: Sequence[Share]) -> None:
        """See that the folders of these claims are there, as they are not after a boot, and no others."""
        kept = {one.claim for one in live}
        for uid in sorted(kept):
            with folders.failing(f"can't write in {self._folder}"):
                self._make(self._claim(uid))
        found = {one.name for one in self._folder.iterdir()} if self._folder.is_dir() else set()
        for name in sorted(found - kept - {self._preload.name}):
            if UID.fullmatch(name):
                self._try_to_remove(name)

    def tick(self) -> None:
        """Nothing runs but the library, in each process."""

    @property
    def _preload(self) -> Path:
        return self._folder / "ld.so.preload"

    def _claim(self, uid: str) -> Path:
        if not UID.fullmatch(uid):
            raise InputError.of("claim", uid, "a UID")
        return self._folder / uid

    def _make(self, claim: Path) -> None:
        """Make a claim's file system. It is bounded, since tenants may fill it, and has no programs."""
        folders.folder(self._folder, 0o711)
        folders.folder(claim, 0o711)
        if not claim.is_mount():
            label = f",context={CONTEXT}" if folders.SELINUX.exists() else ""
            options = f"rw,nosuid,nodev,noexec,mode=711,{BOUNDS}{label}"
            command = ["mount", "-t", "tmpfs", "-o", options, f"hami-core-{claim.name}", str(claim)]
            Host().run(command, timeout=TIMEOUT)
        for name in ("cache", "lock"):
            inside = claim / name  # of a folder that root alone writes
            inside.mkdir(exist_ok=True)
            inside.chmod(0o1777)

    def _remove(self, claim: Path) -> None:
        if claim.is_mount():
            Host().run(["umount", str(claim)], timeout=TIMEOUT)
        with folders.failing(f"can't remove {claim}"):
            if claim.exists():
                os.rmdir(claim)

    def _try_to_remove(self, name: str) -> None:
        try:
            self._remove(self._folder / name)
        except NodeError as error:
            logs.warning("what a claim left stays until the next start", claim=name, cause=error)


def environment(shares: Sequence[Share], *, scaled: bool) -> dict[str, str]:
    """Return what HAMi-core reads. It numbers GPUs as CUDA does, which nobody knows beforehand. Pure.

    NodeError: the shares are not one of each GPU, or not alike, so that the numbers would matter.
    """
    if len({one.gpu_uuid for one in shares}) != len(shares):
        raise _refused(shares, "are of one GPU", "it limits GPUs, each once")
    if len({(one.memory, one.cores, one.priority) for one in shares}) != 1:
        raise _refused(shares, "differ", "it numbers GPUs as CUDA does, and the limits with them")
    one = shares[0]
    if one.memory < MIB:
        raise NodeError(f"a share of {one.memory} bytes can't be had", cause="HAMi-core limits MiB")
    memory = {f"CUDA_DEVICE_MEMORY_LIMIT_{n}": f"{one.memory // MIB}m" for n in range(len(shares))}
    return {
        **memory,
        **({"CUDA_DEVICE_SM_LIMIT": str(min(one.cores, 100))} if one.cores else {}),
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{CACHE}/{one.claim}.cache",
        "CUDA_TASK_PRIORITY": str(one.priority),
        **({"CUDA_OVERSUBSCRIBE": "true"} if scaled else {}),
    }


def _refused(shares: Sequence[Share], what: str, cause: str) -> NodeError:
    return NodeError(
        f"{len(shares)} shares of a claim {what}, which HAMi-core can't limit",
        cause=cause,
        hint="ask for them in one request with count, or in a claim for each container",
    )
