# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The one folder of a run of the tests: what they write is below it, and goes with it.

Its name has the process that made it, which has it locked as long as it lives: a later run removes what one left that
was killed, and nothing of one in another container. What has to be elsewhere goes with it. Its path is short, since
those of sockets may have 107 characters.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

PLACE = Path("/tmp")
PREFIX = "gnt-"
ELSEWHERE = "elsewhere"
CGROUPS = Path("/sys/fs/cgroup")


def begin() -> Path:
    """Make the folder the one for temporary files, of this process and of those that it starts."""
    for old in PLACE.glob(f"{PREFIX}*"):
        if not Path("/proc", old.name.split("-")[1]).exists() and _lock(old):
            _end(old)
            remove(old)
    folder = _made()
    folder.chmod(0o711)  # a process of another user finds there what it is told of
    _lock(folder)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it is read anew
    return folder


def _made() -> Path:
    own = PLACE / f"{PREFIX}{os.getpid()}"
    with contextlib.suppress(FileExistsError):  # another container has a process of that number
        own.mkdir()
        return own
    return Path(tempfile.mkdtemp(prefix=f"{own.name}-", dir=PLACE))


def _lock(folder: Path) -> bool:
    """Lock a folder until this process ends; False where another one has it, or another user."""
    try:
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def named(name: str) -> str:
    """Return a name for what is not below the folder, as a control group, and goes with it."""
    return f"{Path(tempfile.gettempdir()).name}.{name}"


def given() -> Path | None:
    """Return the folder that the caller has made, if there is one."""
    path = Path(os.environ.get("TMPDIR", "/"))
    return path if path.parent == PLACE and path.name.startswith(PREFIX) else None


def elsewhere(parent: str, prefix: str = "") -> Path:
    """Make a folder below one that a test needs: root's alone, or in memory. It goes with the run's at the latest."""
    return belonging(Path(tempfile.mkdtemp(prefix=prefix, dir=parent)))


def belonging(path: Path) -> Path:
    """Have a folder, or a control group, go with the run's folder at the latest."""
    place = given()
    if place is None:
        place = begin()
        atexit.register(remove, place)
    (place / ELSEWHERE).mkdir(exist_ok=True)
    (place / ELSEWHERE / uuid.uuid4().hex).symlink_to(path)
    return path


def remove(folder: Path) -> None:
    """Remove a folder and what belongs to it: mounts, folders elsewhere, control groups."""
    for one in [*(link.readlink() for link in (folder / ELSEWHERE).glob("*")), folder]:
        for place in sorted(_mounted(one), reverse=True):
            subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
        shutil.rmtree(one, ignore_errors=True)
    for parent, names, _files in os.walk(
        CGROUPS, topdown=False
    ):  # others' groups come and go meanwhile
        for name in names:
            if name.startswith(f"{folder.name}."):
                with contextlib.suppress(OSError):
                    Path(parent, name).rmdir()


def _end(folder: Path) -> None:
    """End the processes of a run that was killed."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def _mounted(folder: Path) -> Iterator[str]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if (place := line.split()[1]).startswith(f"{folder}/"):
            yield place
