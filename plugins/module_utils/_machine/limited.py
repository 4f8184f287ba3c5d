# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Programs that may hang or write without end: what they write is handed on as it comes, and none outlives its time."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
import typing as t

from .host import Host

POLL = 0.1
BLOCK = 1 << 16
GRACE = (
    5.0  # seconds in which the kernel ends what was killed, unless a driver does not let go of it
)


class Ended(t.NamedTuple):
    """How a program ended: its exit status, or None with the reason where it did not start or was killed."""

    rc: t.Optional[int]
    problem: str = ""


class Programs:
    """Runs programs of the machine. ``now`` is a clock that only goes forward, in seconds."""

    def __init__(self, host: Host, now: t.Callable[[], float] = time.monotonic) -> None:
        self._host, self._now = host, now

    def run(
        self, argv: t.Sequence[str], take: t.Callable[[bytes], None], *, seconds: float
    ) -> Ended:
        """Run a program without a shell and without input, and hand what it writes to ``take``, errors among it.

        It is killed after so many seconds, and in any case all that it started and left behind. What ``take`` raises
        ends it too.
        """
        program = self._host.which(argv[0])
        if program is None:
            return Ended(None, f"{argv[0]} is not installed")
        deadline = self._now() + seconds
        try:
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._host.environment(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            return Ended(None, f"{program}: {error.strerror or error}")
        try:
            in_time = self._follow(process, take, deadline)
        finally:
            gone = _end(process)
        if in_time:
            return Ended(process.returncode)
        stuck = "" if gone else ", and still hangs in the kernel"
        return Ended(None, f"it had not ended after {seconds:g} seconds and was killed{stuck}")

    def answer(self, argv: t.Sequence[str], most: int, *, seconds: float) -> t.Tuple[bytes, Ended]:
        """Run a program as above, and return what it writes, of that at most so many bytes, and how it ended."""
        output = bytearray()

        def take(data: bytes) -> None:
            output.extend(data[: most - len(output)])

        ended = self.run(argv, take, seconds=seconds)
        return bytes(output), ended

    def _follow(
        self, process: subprocess.Popen[bytes], take: t.Callable[[bytes], None], deadline: float
    ) -> bool:
        """Hand on what a process writes until it has ended; tell whether it has in time."""
        if process.stdout is None:
            raise ValueError("a process without a pipe")
        pipe, writes = process.stdout.fileno(), True
        while True:
            ended = _has_ended(process.pid)
            if not writes:
                time.sleep(0 if ended else POLL)
            elif select.select([pipe], [], [], 0 if ended else POLL)[0]:
                data = os.read(pipe, BLOCK)
                writes = bool(data)
                if data:
                    take(data)
                ended = ended and not data
            if ended or self._now() > deadline:
                return ended


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended, which stays one: its number is nobody else's before its group is killed."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _end(process: subprocess.Popen[bytes]) -> bool:
    """Kill a process and what it started; tell whether it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        return False
    return True
