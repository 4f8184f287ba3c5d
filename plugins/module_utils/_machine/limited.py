# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Programs that may hang or write without end: their output is passed on as it comes, and they have a timeout."""

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
# Seconds in which the kernel ends a killed process, unless it hangs in a driver.
GRACE = 5.0


class Ended(t.NamedTuple):
    """The end of a program: its exit status, or None with the reason if it did not start or was killed."""

    rc: t.Optional[int]
    problem: str = ""


class Programs:
    """Runs programs of the machine. ``clock`` is monotonic, in seconds."""

    def __init__(self, host: Host, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._host, self._clock = host, clock

    def run(
        self, argv: t.Sequence[str], take: t.Callable[[bytes], None], *, seconds: float
    ) -> Ended:
        """Run a program without a shell and without input, and hand its output and errors to ``take``.

        It is killed after so many seconds, or if ``take`` raises; processes that it leaves behind are killed in any
        case.
        """
        program = self._host.which(argv[0])
        if program is None:
            return Ended(None, f"{argv[0]} is not installed")
        deadline = self._clock() + seconds
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
        """Run a program as above, and return at most so many bytes of its output, and how it ended."""
        output = bytearray()

        def take(data: bytes) -> None:
            output.extend(data[: most - len(output)])

        ended = self.run(argv, take, seconds=seconds)
        return bytes(output), ended

    def _follow(
        self, process: subprocess.Popen[bytes], take: t.Callable[[bytes], None], deadline: float
    ) -> bool:
        """Hand on the output of a process until it has ended, and return whether it has in time."""
        if process.stdout is None:
            raise ValueError("a process without a pipe")
        pipe, writes = process.stdout.fileno(), True
        while True:
            # Not poll(): the child stays a zombie, so that its PID is not reused before its group is killed.
            status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            ended = status is not None
            if not writes:
                time.sleep(0 if ended else POLL)
            elif select.select([pipe], [], [], 0 if ended else POLL)[0]:
                data = os.read(pipe, BLOCK)
                writes = bool(data)
                if data:
                    take(data)
                ended = ended and not data
            if ended or self._clock() > deadline:
                return ended


def _end(process: subprocess.Popen[bytes]) -> bool:
    """Kill a process with its group, and return whether it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        return False
    return True
