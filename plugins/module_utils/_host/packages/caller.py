# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Calling a package manager's commands: one that another process keeps out waits for its turn."""

from __future__ import annotations

import time
import typing as t

from ..._core.errors import NodeError
from ..api import Completed, Host

TAIL_LINES = 20
RETRY_SECONDS = 2.0


class Locked(NodeError):
    """Another process has held a package manager's lock for too long."""


class Caller:
    """Calls the commands of a package manager; waits where another process holds its lock."""

    def __init__(
        self,
        host: Host,
        timeout: float,
        is_busy: t.Callable[[Completed], bool],
        environment: t.Mapping[str, str],
    ) -> None:
        self._host, self._timeout = host, timeout
        self._is_busy, self._environment = is_busy, environment

    def __call__(
        self,
        argv: t.Sequence[str],
        *,
        check: bool = True,
        stdin: t.Optional[str] = None,
        good: t.Sequence[int] = (0,),
    ) -> Completed:
        """Run a command, and again for as long as another process holds the lock."""
        deadline = time.monotonic() + self._timeout
        while True:
            done = self._host.run(argv, check=False, env=self._environment, stdin=stdin)
            busy = self._is_busy(done)
            if not busy or time.monotonic() >= deadline:
                break
            time.sleep(RETRY_SECONDS)
        if busy:
            raise Locked(
                f"another package manager is at work on the node, for longer than {self._timeout:g} s",
                cause=tail(done),
                hint="wait until it has ended, or raise lock_timeout",
            )
        if check and done.rc not in good:
            raise NodeError(
                f"{argv[0]} failed with status {done.rc}",
                cause=tail(done),
                hint="fix the cause named above and run again, which finishes what was begun",
                rc=done.rc,
                command=" ".join(argv),
            )
        return done


def tail(done: Completed) -> str:
    """Return the end of what a command has said."""
    lines = [line for line in f"{done.out}\n{done.err}".split("\n") if line.strip()]
    return "\n".join(lines[-TAIL_LINES:])
