# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files that everybody may read, replaced in one step, and the state of a process in such a file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from .._shared._base.errors import NodeError
from .._shared._base.text import json_data
from .._shared._base.text.shown import cut, shown
from .._shared._machine import writers
from . import bounded, logs

VERSION: Final = 1
T = TypeVar("T")
Stamp = tuple[int, int, int, int]


@contextlib.contextmanager
def failing(problem: str, kind: type[NodeError] = NodeError, hint: str = "") -> Iterator[None]:
    """Raise an OSError of a with statement as a NodeError, or an error of a ``kind``, with a problem and a hint."""
    try:
        yield
    except OSError as error:
        raise kind(problem, cause=error.strerror or str(error), hint=hint) from error


def stamp(path: str | Path) -> Stamp | None:
    """Return what differs after each change of a file, also if its time is set back; None if it can't be seen."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return stamp_of(status)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file from its status. Unlike st_mtime, nobody can set st_ctime."""
    return status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size


def inode(path: Path) -> int | None:
    """Return a file's inode, which differs once it was made again; None if it can't be seen."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def replace(path: Path, text: str, mode: int = 0o644, *, durable: bool = False) -> None:
    """Write a file in one step, and make its folder with the mode 0755. After an error the old file is there.

    No link is followed. ``durable``: after a loss of power there is one of the two files.

    Raises:
        OSError: if it can't be written.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
        path.parent.chmod(0o755)
    temporary = str(path.with_name(f".{path.name}.{os.getpid()}"))
    with writers.replacing(str(path), temporary=temporary, durable=durable) as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(text.encode())


def keep(path: Path, text: str) -> None:
    """Replace a file if its content differs, as replace() does."""
    try:
        is_unchanged = path.read_text(encoding="utf-8", errors="replace") == text
    except OSError:
        is_unchanged = False
    if not is_unchanged:
        replace(path, text)


class StateUnusable(NodeError):
    """The content of a state file can't be used."""


class StateFile:
    """Writes the state of a process, this one by default, when it has changed.

    ``durable``: the file survives a loss of power, which nothing below /run has to. ``compact`` is for
    large states: Python indents slowly.
    """

    def __init__(
        self,
        path: Path,
        *,
        mode: int = 0o644,
        durable: bool = False,
        pid: int | None = None,
        compact: bool = False,
    ) -> None:
        self.path, self._mode, self._durable = path, mode, durable
        self._indent = None if compact else 2
        pid = os.getpid() if pid is None else pid
        self._stamp = {"version": VERSION, "pid": pid, "began": started(pid)}
        self._last: Mapping[str, Any] | None = None

    def write(self, state: Mapping[str, Any]) -> bool:
        """Write a state, which must not change any more, if it differs or the file is gone. Return whether it did.

        A ``version`` in it takes the place of that of the file's format.

        Raises:
            OSError: if it was not written.
        """
        if state == self._last and os.path.exists(self.path):
            return False
        text = json.dumps({**self._stamp, **state}, indent=self._indent, sort_keys=True) + "\n"
        replace(self.path, text, self._mode, durable=self._durable)
        self._last = state
        return True

    def still_true(self) -> None:
        """Set the file's time, which shows that the process goes on, also while nothing changes."""
        with contextlib.suppress(OSError):
            os.utime(self.path)

    def remove(self) -> None:
        """Remove the file: the process ends."""
        self.path.unlink(missing_ok=True)
        self._last = None


def read(path: Path, versions: tuple[int, ...] = ()) -> dict[str, Any] | None:
    """Return the state in a file, None if there is no file.

    Raises:
        StateUnusable: if it can't be read, isn't a state, or its version is none of ``versions``, if there are any.
    """
    try:
        data = json_data.loads(bounded.read_text(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StateUnusable(f"{path} can't be used", cause=cut(str(error))) from error
    if not isinstance(data, dict):
        raise StateUnusable(f"{path} can't be used", cause="it is no JSON object")
    version = data.get("version")
    if versions and version not in versions:
        raise StateUnusable(
            f"{path} can't be used", cause=f"version {shown(version)} is not {versions[-1]}"
        )
    return data


def recall(path: Path, trouble: str, parse: Callable[[dict[str, Any]], T], default: T) -> T:
    """Return what ``parse`` makes of the state that an earlier process wrote.

    The ``default`` is for no file, and for one that can't be used, which is logged as ``trouble``.
    """
    try:
        data = read(path, (VERSION,))
        return default if data is None else parse(data)
    except (NodeError, AttributeError, LookupError, TypeError, ValueError) as error:
        logs.warning(trouble, cause=error)
        return default


def alive(state: Mapping[str, Any], look: Callable[[object], str] | None = None) -> bool:
    """Return whether the process that wrote a state runs, and not another one that got its number.

    ``look`` is started(), or a version of it that caches answers.
    """
    start_time = (look or started)(state.get("pid"))
    return bool(start_time) and start_time == state.get("began")


def started(pid: object) -> str:
    """Return a process's start time, which distinguishes it from a later one of its number; empty if none runs."""
    fields = stat_fields(pid) if isinstance(pid, int) and pid > 0 else ()
    return fields[19] if fields else ""


def stat_fields(pid: int) -> Sequence[str]:
    """Return the fields of proc_pid_stat(5) after the name of a process, none if none runs."""
    fields = bounded.peek(Path(f"/proc/{pid:d}/stat")).rpartition(")")[2].split()
    return fields if fields and fields[0] != "Z" else ()
