# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The folders of a device's MPS daemon: permissions, shared memory, and its manager's lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._machine.host import Host
from .._shared._machine.writers import who_writes
from ..model.mps.paths import Names
from ..tools import logs
from ..tools.files import failing

SELINUX: Final = Path("/sys/fs/selinux/enforce")
LABEL: Final = b"system_u:object_r:container_file_t:s0\0"
# What a control daemon makes are three sockets and two empty files; clients only connect.
IPC_LIMITS: Final = "size=1m,nr_inodes=64"
# Bytes of shared memory for which there may be a file, which takes a KiB of the kernel's.
PER_FILE: Final = 16 << 10
CONTROL: Final = "control"
LOG: Final = "log"
OWN: Final = "d-"  # with which the name of a control daemon's own directory begins
FOR_ROOT: Final = (LOG, "control_privileged", "control_lock", "nvidia-cuda-mps-control.pid")
TIMEOUT: Final = 30
CLEAR_SECONDS: Final = 5.0  # the device is not looked at meanwhile
ROOTS_ALONE: Final = "choose a mpsRoot that root alone may write, such as /run/gpu-node/mps"


def refusal(root: str) -> str:
    """Return why MPS can't have its files below a root, empty if root alone decides what is there.

    Links, states and process ids are trusted there.
    """
    problem = who_writes(root)
    return f"MPS can't have its files in {root}: {problem}" if problem else ""


@contextlib.contextmanager
def locked(names: Names) -> Iterator[None]:
    """Be the only manager of a device.

    Raises:
        NodeError: if there is another one.
    """
    if problem := refusal(names.root):
        raise NodeError(problem, hint=ROOTS_ALONE)
    if not Path(names.root).exists():  # who made it chose its mode
        folder(Path(names.root), 0o755)
    path = Path(f"{names.folder}.lock")
    with _lock(path, f"the MPS control daemon of {names.device} has a manager"):
        yield


@contextlib.contextmanager
def the_manager(folder: Path) -> Iterator[None]:
    """Be the only manager of a node, which has its settings in a folder.

    Raises:
        NodeError: if there is another one.
    """
    _make(folder)
    with _lock(folder / "manager.lock", f"the MPS control daemons of {folder} have a manager"):
        yield


@contextlib.contextmanager
def the_settings(folder: Path) -> Iterator[None]:
    """Be the only process that changes settings in a folder.

    The device plugin and the DRA driver look whose a device is before they write or remove its file.

    Raises:
        NodeError: if another process changes them at the moment.
    """
    _make(folder)
    with _lock(folder / "settings.lock", f"the settings in {folder} are being changed"):
        yield


def _make(folder: Path) -> None:
    with failing(f"can't make {folder}"):
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)


@contextlib.contextmanager
def _lock(path: Path, taken: str) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with failing(f"can't open {path}"):
        stream = open(os.open(path, flags, 0o600), "r+b", buffering=0)  # noqa: SIM115
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = stream.read(20).decode() or "unknown"
            raise NodeError(f"{taken} already", cause=f"process {owner} holds {path}") from None
        with contextlib.suppress(OSError):  # who holds it is for people, the lock itself counts
            stream.truncate(0)
            stream.write(str(os.getpid()).encode())
        yield


def make(names: Names) -> None:
    """Make the folders: clients of every user go through, root alone writes."""
    folder(Path(names.folder), 0o711)
    ipc = Path(names.ipc)
    folder(ipc, 0o711)
    if os.geteuid() == 0 and not ipc.is_mount():
        _mount(names, names.ipc, f"mode=711,{IPC_LIMITS}")
    folder(Path(names.pipe), 0o755)
    folder(Path(names.log), 0o755)
    _label(Path(names.pipe))


def fresh(names: Names) -> Path:
    """Make the own directory of a control daemon that is about to start: no container has seen it."""
    clean(names)
    with failing(f"can't write in {names.ipc}"):
        path = Path(tempfile.mkdtemp(prefix=OWN, dir=names.ipc))
    _label(path)
    return path


@contextlib.contextmanager
def output(names: Names) -> Iterator[int]:
    """Make a pipe for a control daemon's output, which a later manager can read too.

    Both ends are the daemon's: without a reader it is neither ended nor held up, and the rest is lost.
    """
    path = _output(names)
    with failing(f"can't make {path}"):
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_output(names: Names) -> int:
    """Open the pipe with a control daemon's output.

    Raises:
        OSError: if it can't be opened.
    """
    return os.open(_output(names), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def _output(names: Names) -> Path:
    return Path(names.folder) / "output"


def publish(names: Names, own: Path, *, everything: bool = False) -> None:
    """Give clients the control socket of a daemon's own directory: the same file, by link.

    What a container may do in the directory that it gets can't be done to that of the daemon. Its
    pipe for clients' logs is not among it, since a daemon hangs that reads rubbish there.
    ``everything``: also that, and what only root needs.
    """
    pipe = Path(names.pipe)
    with failing(f"can't write in {names.pipe}"):
        if not everything:
            (pipe / LOG).symlink_to("/dev/null")  # of the container
        for name in (*(FOR_ROOT if everything else ()), CONTROL):
            if (own / name).exists():
                os.link(own / name, pipe / name, follow_symlinks=False)


def folder(path: Path, mode: int) -> None:
    """Make a folder that is ours.

    Raises:
        NodeError: if it can't be made, or belongs to another user.
    """
    with failing(f"can't make {path}"):
        path.mkdir(parents=True, exist_ok=True)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise NodeError(f"{path} is not a folder")
        if status.st_uid != os.geteuid():
            raise NodeError(
                f"{path} is not ours",
                cause=f"it belongs to user {status.st_uid}",
                hint="remove it, or choose another root",
            )
        path.chmod(mode)


def clean(names: Names) -> None:
    """Remove what an earlier control daemon left; the directory that containers have stays."""
    pipe = Path(names.pipe)
    for path in {*pipe.glob("*"), *pipe.parent.glob("*")} - {pipe}:
        with contextlib.suppress(OSError):
            Host().remove(str(path))


def mount_shm(names: Names, size: int) -> bool:
    """Mount the daemon's own shared memory, once. Return whether it is mounted."""
    if os.geteuid() != 0:
        logs.warning(
            "no shared memory of its own, the control daemon uses the node's", cause="not root"
        )
        return False
    path = Path(names.shm)
    folder(path, 0o1777)
    again = ",remount" if os.path.ismount(path) else ""
    _mount(names, names.shm, f"mode=1777,size={size},nr_inodes={size // PER_FILE}{again}")
    _label(path)
    return True


def clear(path: Path, before: float) -> None:
    """Remove what tenants left in a folder, unless it changed after ``before``, in seconds since the epoch.

    The folder itself stays, since the control daemon has it mounted as its /dev/shm. A tenant chooses how deep and how
    wide a tree is: nothing here recurses or keeps a list of it. What can't be removed keeps nothing else.

    Raises:
        OSError: if something is left. The next call goes on from there.
    """
    deadline = time.monotonic() + CLEAR_SECONDS
    own, problem, removed = f".{secrets.token_hex(8)}.", None, True
    with _opened(path) as top:
        while removed:
            removed = False
            with os.scandir(top) as entries:
                for entry in _in_time(entries, deadline):
                    try:
                        changed = entry.stat(follow_symlinks=False).st_ctime
                        if entry.name.startswith(own) or changed < before:
                            _remove_level(entry.name, top, own, deadline)
                            removed = True
                    except OSError as error:
                        problem = problem or error
    if problem:
        raise problem


def _remove_level(name: str, top: int, own: str, deadline: float) -> None:
    """Remove a file, or a folder whose own folders are moved up beside it, by new names that begin with ``own``."""
    try:
        os.unlink(name, dir_fd=top)
        return
    except IsADirectoryError:
        pass
    with _opened(name, top) as folder, os.scandir(folder) as entries:
        for entry in _in_time(entries, deadline):
            if entry.is_dir(follow_symlinks=False):
                up = f"{own}{secrets.token_hex(8)}"
                os.rename(entry.name, up, src_dir_fd=folder, dst_dir_fd=top)
            else:
                os.unlink(entry.name, dir_fd=folder)
    os.rmdir(name, dir_fd=top)


def _in_time(entries: Iterator[os.DirEntry[str]], deadline: float) -> Iterator[os.DirEntry[str]]:
    for entry in entries:
        if time.monotonic() > deadline:
            raise TimeoutError(errno.ETIMEDOUT, f"it takes more than {CLEAR_SECONDS:g} seconds")
        yield entry


@contextlib.contextmanager
def _opened(name: str | Path, parent: int | None = None) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def unmount(names: Names) -> None:
    """Give shared memory and pipes back. A container that still has them keeps them."""
    for path in (names.shm, names.ipc):
        if os.path.ismount(path):
            completed = Host().run(["umount", path], check=False, timeout=TIMEOUT)
            if completed.rc:
                logs.warning("a file system stays mounted", path=path, cause=completed.err.strip())


def _label(path: Path) -> None:
    """Let containers in where SELinux is on, also if it is permissive. What is made inside inherits it."""
    if not SELINUX.exists():
        return
    try:
        os.setxattr(path, "security.selinux", LABEL)
    except OSError as error:
        raise NodeError(
            f"{path} can't have the SELinux label {LABEL.decode().rstrip(chr(0))}",
            cause=error.strerror or str(error),
            hint="install the policy for containers (container-selinux), or choose another root",
        ) from error


def _mount(names: Names, path: str, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", f"rw,nosuid,nodev,noexec,{options}"]
    Host().run([*command, f"gpu-mps-{names.device}", path], timeout=TIMEOUT)
