# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The folders of a device's MPS daemon, its shared memory, and the lock of its manager."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .. import logs
from .._shared._core.errors import NodeError
from .places import Names

SELINUX: Final = Path("/sys/fs/selinux/enforce")
XATTR: Final = "security.selinux"
LABEL: Final = b"system_u:object_r:container_file_t:s0\0"
SMALLEST_SHM: Final = 64 * 1024**2


@contextlib.contextmanager
def locked(names: Names) -> Iterator[None]:
    """Be the one manager of a device. NodeError: another one is."""
    if not Path(names.root).exists():  # who made it chose its mode
        folder(Path(names.root), 0o755)
    path = Path(names.lock)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        stream = open(os.open(path, flags, 0o600), "r+b", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise NodeError(f"can't open {path}", cause=error.strerror or str(error)) from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = stream.read(20).decode() or "unknown"
            raise NodeError(
                f"the MPS daemon of {names.device} has a manager already",
                cause=f"process {owner} holds {path}",
            ) from None
        with contextlib.suppress(OSError):  # who holds it is only told, the lock itself counts
            stream.truncate(0)
            stream.write(str(os.getpid()).encode())
        yield


def make(names: Names) -> None:
    """Make the folders: clients of every user go through, root alone writes."""
    folder(Path(names.folder), 0o711)
    folder(Path(names.pipe), 0o755)
    folder(Path(names.log), 0o755)
    _label(Path(names.pipe))


def folder(path: Path, mode: int) -> None:
    """Make a folder that is ours. NodeError: what is there belongs to somebody else."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise NodeError(f"{path} is not a folder")
        if found.st_uid != os.geteuid():
            raise NodeError(
                f"{path} is not ours",
                cause=f"it belongs to user {found.st_uid}",
                hint="remove it, or choose another root",
            )
        path.chmod(mode)
    except OSError as error:
        raise NodeError(f"can't make {path}", cause=error.strerror or str(error)) from error


def clean(names: Names) -> None:
    """Remove what an earlier control daemon left in the pipe folder."""
    with contextlib.suppress(FileNotFoundError):
        for path in Path(names.pipe).iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def mount_shm(names: Names, size: int) -> bool:
    """Mount the daemon's own shared memory, once. Returns whether it is there."""
    if os.geteuid() != 0:
        logs.warning("no shared memory of its own, the daemon uses the node's", cause="not root")
        return False
    path = Path(names.shm)
    folder(path, 0o1777)
    again = ["remount"] if os.path.ismount(path) else []
    options = ",".join([*again, "rw,nosuid,nodev,noexec,mode=1777", f"size={size}"])
    _run("mount", "-t", "tmpfs", "-o", options, f"gpu-mps-{names.device}", path)
    _label(path)
    return True


def unmount_shm(names: Names) -> None:
    """Give the shared memory back. A container that still has it keeps it."""
    path = Path(names.shm)
    if os.path.ismount(path):
        try:
            _run("umount", path)
        except NodeError as error:
            logs.warning("the shared memory stays mounted", cause=error)


def default_shm_size() -> int:
    """Return half of the node's memory, as tmpfs does by itself."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(pages // 2, SMALLEST_SHM)


def _label(path: Path) -> None:
    """Let containers in where SELinux is on, also if it is permissive. What is made inside inherits it."""
    if not SELINUX.exists():
        return
    try:
        os.setxattr(path, XATTR, LABEL)
    except OSError as error:
        raise NodeError(
            f"{path} can't have the SELinux label {LABEL.decode().rstrip(chr(0))}",
            cause=error.strerror or str(error),
            hint="install the policy for containers (container-selinux), or choose another root",
        ) from error


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise NodeError(f"{words[0]} {words[-1]} failed", cause=done.stderr.strip())
