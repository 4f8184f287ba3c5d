# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Start and end the helper processes of tests, which nothing else in tests/ does, and see what a process does.

A started process is waited for until it is ready, an ended one until it is gone. The only limit is that of a hang.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tests.support.waiting import LIMIT, eventually

T = TypeVar("T")


class HelperProcess(subprocess.Popen[Any]):
    """A child process whose end is always waited for, and no longer than a hang."""

    def wait(self, timeout: float | None = LIMIT) -> int:
        """Return the exit status once the process has ended by itself."""
        return super().wait(timeout)

    def communicate(self, input: Any = None, timeout: float | None = LIMIT) -> tuple[Any, Any]:
        """Write the input, and return the output and the error output once the process has ended by itself."""
        return super().communicate(input, timeout)

    def kill(self) -> None:
        """Kill the process and wait until it is gone. Its pipes stay open."""
        super().kill()
        self.wait()

    def terminate(self) -> None:
        """Terminate the process and wait until it is gone.

        Raises:
            subprocess.TimeoutExpired: if it hung, in which case it was killed.
        """
        super().terminate()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def close(self) -> None:
        """Kill the process if it still runs, wait until it is gone and close its pipes."""
        self.kill()
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # of input that was not flushed
                    pipe.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


Ready = Callable[[HelperProcess], object]


def executed(_process: HelperProcess) -> bool:
    """Return True: the program was executed, and the caller needs no more of it."""
    return True


def printed(expected: str = "") -> Ready:
    """Return a check that the process has printed a line: this one, or any if it is empty."""

    def check(process: HelperProcess) -> bool:
        assert process.stdout is not None
        output = process.stdout.readline()
        line = output if isinstance(output, str) else output.decode()
        assert line.endswith("\n"), f"ended before it was ready: {process.args!r} printed {line!r}"
        assert expected in ("", line[:-1]), f"{process.args!r} printed {line!r}"
        return True

    return check


def exists(path: Path) -> Ready:
    """Return a check that a path, such as that of a socket, exists."""
    return lambda _process: path.exists()


def start(argv: Sequence[Any], *, ready: Ready, **options: Any) -> HelperProcess:
    """Start a process and return it once it is ready.

    Args:
        argv: The command line.
        ready: Whether the process is ready; asked again until it is.
        options: Further arguments of subprocess.Popen.

    Raises:
        AssertionError: if the process ended before it was ready, or hung.
    """
    process = HelperProcess(argv, **options)

    def is_ready() -> bool:
        status = process.poll()
        if ready(process):
            return True
        assert status is None, f"{argv} ended with status {status} before it was ready"
        return False

    try:
        eventually(is_ready)
    except BaseException:
        process.close()
        raise
    return process


def start_detached(argv: Sequence[Any], *, ready: Callable[[], T | None], **options: Any) -> T:
    """Run a command that leaves a daemon behind, and return what `ready` does once it is true.

    The daemon has no pipe to the caller: it would stay open for as long as the daemon runs.
    """
    null = subprocess.DEVNULL
    subprocess.run(argv, check=True, stdin=null, stdout=null, stderr=null, **options)
    answer = eventually(ready)
    assert answer is not None
    return answer


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a single process, and wait until it is gone if it is killed.

    ``os.kill`` takes the 0 of a state without a process for the process group of the tests, and ends them and whoever
    started them.

    Raises:
        OSError: if there is no such process.
        AssertionError: if it hung.
    """
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, number)
        if number == signal.SIGKILL:
            assert _is_gone(descriptor), f"process {pid} is still there"
    finally:
        os.close(descriptor)


def end_detached(pid: int, *left: Path) -> None:
    """Terminate a process that is no child of this one, and wait until it and these paths, as its socket, are gone.

    Raises:
        AssertionError: if it hung, in which case it was killed.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        has_ended = _is_gone(descriptor)
        if not has_ended:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            _is_gone(descriptor)
        assert has_ended, f"process {pid} did not end within {LIMIT:.0f} seconds and was killed"
    finally:
        os.close(descriptor)
    eventually(lambda: not any(path.exists() for path in left))


def _is_gone(descriptor: int) -> bool:
    """Wait for the end of a process, and return whether it came before the hang limit."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(LIMIT * 1000))


def spent(pid: int) -> float:
    """Return how many seconds of the processor a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rests(pid: int) -> int:
    """Return how often a process' first thread has given the processor away, as between two tries."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_"))


def opened(pid: int, path: Path) -> bool:
    """Return whether a process has a file open."""
    return any(one.resolve() == path.resolve() for one in Path(f"/proc/{pid}/fd").iterdir())


def runs(pid: int | str) -> bool:
    """Return whether a process runs: one that has ended and that its parent has not asked for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
