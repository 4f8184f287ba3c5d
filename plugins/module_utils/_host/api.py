# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a capability may do to the machine, as a protocol."""

from __future__ import annotations

import typing as t


class Completed(t.NamedTuple):
    """A finished command: its exit status, standard output and standard error."""

    rc: int
    out: str
    err: str


class Status(t.NamedTuple):
    """What a path leads to: its mode with the type of file, and the user who owns it."""

    mode: int
    uid: int


class Host(t.Protocol):
    """The machine: commands and files. Paths are absolute."""

    def run(
        self,
        argv: t.Sequence[str],
        *,
        check: bool = True,
        env: t.Optional[t.Mapping[str, str]] = None,
        timeout: t.Optional[float] = None,
        stdin: t.Optional[str] = None,
    ) -> Completed:
        """Run a command without a shell, in the C locale.

        With ``check``, a missing program, a non-zero status or a timeout (seconds) raises
        NodeError; without it a missing program is status 127 and a timeout 124.
        """

    def which(self, name: str) -> t.Optional[str]:
        """Return the path of a program, or None."""

    def read(self, path: str) -> t.Optional[str]:
        """Return a file's text, or None when it does not exist."""

    def read_bytes(self, path: str) -> t.Optional[bytes]:
        """Return a file's bytes, or None when it does not exist."""

    def write(
        self, path: str, text: str, *, mode: t.Optional[int] = None, backup: bool = False
    ) -> t.Optional[str]:
        """Replace a file's text in one atomic step and return the backup's path, if one was made.

        An existing file keeps its owner, and its mode unless one is given; a new one gets 0644.
        """

    def listdir(self, path: str) -> t.List[str]:
        """Return the sorted names in a folder, none when it does not exist."""

    def exists(self, path: str) -> bool:
        """Tell whether something is there (a dangling link counts)."""

    def readlink(self, path: str) -> t.Optional[str]:
        """Return a symbolic link's target, or None."""

    def status(self, path: str) -> t.Optional[Status]:
        """Return mode and owner of what a path leads to, or None where that is nothing."""

    def mtime(self, path: str) -> t.Optional[float]:
        """Return when a file was last changed, in seconds since the epoch, or None."""

    def makedirs(self, path: str, mode: int = 0o755) -> None:
        """Make a folder and its parents."""

    def symlink(self, target: str, path: str) -> None:
        """Make or replace a symbolic link in one atomic step."""

    def remove(self, path: str) -> bool:
        """Remove a file, a link or a whole folder; tell whether it was there."""

    def lock(self, path: str, *, timeout: float = 0) -> t.ContextManager[None]:
        """Hold an exclusive lock on a file; NodeError when another process keeps it too long."""
