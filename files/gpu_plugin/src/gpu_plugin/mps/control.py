# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The genuine nvidia-cuda-mps-control: the daemon as a child process, questions to it, what it can do."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

from .._shared._core.errors import NodeError
from ..tools import bounded, logs
from . import protocol
from .folders import failing
from .paths import PROGRAM, Names, daemon_environment
from .protocol import ControlError, Silent

MULTI_USER: Final = "-multiuser-server"
NO_OPTION: Final = "-no-such-option"
HINT: Final = "remove multiUser from sharing.mps, or install a driver whose program has it"
ANSWER_SECONDS: Final = 5.0
START_SECONDS: Final = 10.0
PAUSE: Final = 0.03
# The daemon's server and its clients have to see the same /dev/shm; only the daemon's is changed.
OWN_SHM: Final = ("unshare", "--mount", "--propagation", "slave", "--", "sh", "-c")
OWN_SHM_SCRIPT: Final = 'mount --bind "$0" /dev/shm && exec "$@"'
LONGEST_LINE: Final = 4096  # clients write to the daemon's log too
KEPT_FROM_DAEMON: Final = ("CUDA_", "NOTIFY_SOCKET", "WATCHDOG_")
Process = subprocess.Popen[bytes]


class Control:
    """A control daemon. ``on_end`` is called, in a thread, when its process has ended.

    ``command`` is the program and the options that the daemon is to have.
    """

    def __init__(
        self, command: Sequence[str], names: Names, own_shm: bool, on_end: Callable[[], None]
    ) -> None:
        self._program, *self._options = command
        self._names, self._own_shm = names, own_shm
        self._on_end = on_end
        self._process: Process | None = None
        self._ended = threading.Event()
        self._reader: threading.Thread | None = None
        self._last: collections.deque[str] = collections.deque(maxlen=3)
        self._environment: dict[str, str] = {}

    @property
    def pid(self) -> int:
        """The daemon's process; 0 when there is none."""
        return self._process.pid if self._process and not self._ended.is_set() else 0

    def start(self, own: Path) -> None:
        """Start the daemon in a directory of its own. It answers later, so ask() needs time."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(KEPT_FROM_DAEMON)}
        self._environment = {**inherited, **daemon_environment(self._names, str(own))}
        command = [self._program, "-f", *self._options]
        if self._own_shm:
            command = [*OWN_SHM, OWN_SHM_SCRIPT, self._names.shm, *command]
        self._last.clear()
        self._process = None  # the one before is over, whatever becomes of the next
        self._ended = threading.Event()
        with failing(f"can't start {self._program}", ControlError):
            process = _launch(command, self._environment, subprocess.PIPE)
        self._process = process
        self._reader = threading.Thread(target=self._follow, args=(process,), daemon=True)
        self._reader.start()
        threading.Thread(target=self._watch, args=(process, self._ended), daemon=True).start()

    def ask(self, command: str, seconds: float = ANSWER_SECONDS) -> str:
        """Return the daemon's answer. Silent: there is none. ControlError: it ended or refuses."""
        deadline = time.monotonic() + seconds
        while True:
            output, problem = self._say(protocol.question(command), deadline - time.monotonic())
            answer = protocol.answer(output)
            if answer is not None:
                break
            if not self.pid:
                raise ControlError("the control daemon ended", cause=self.ending())
            if time.monotonic() > deadline:
                raise Silent("the control daemon does not answer", cause=problem)
            time.sleep(PAUSE)
        if refused := protocol.refusal(answer):
            raise ControlError(f"the control daemon refuses {command}", cause=refused)
        return answer

    def _say(self, text: str, seconds: float) -> tuple[str, str]:
        """Return what the program answers, and what went wrong."""
        with failing(f"can't start {self._program}", ControlError):
            done = bounded.run([self._program], text, self._environment, max(seconds, PAUSE))
        return done.out, done.err.strip() or f"status {done.rc}"

    def quit(self, drain: float) -> None:
        """End the daemon: no new clients, and so many seconds for those that are there."""
        deadline = time.monotonic() + drain + ANSWER_SECONDS
        with contextlib.suppress(ControlError):
            while self.pid and time.monotonic() < deadline:  # somebody else may cut us off
                self._say(f"quit -t {max(round(drain), 1)}\n", deadline - time.monotonic())
                self._ended.wait(1)
        self.kill()

    def kill(self) -> None:
        """End what is left of the daemon and its servers."""
        if self._process is not None and self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._ended.wait()

    def ending(self) -> str:
        """Return how the daemon ended, with the last that it said."""
        if self._reader is not None:
            self._reader.join(0.5)  # it may not have read the last words yet
        status = self._process.returncode if self._process and not self.pid else None
        how = f"signal {abs(status)}" if status and status < 0 else f"status {status}"
        return "; ".join([f"it ended with {how}", *self._last])

    def _follow(self, process: Process) -> None:
        """Pass on what the daemon tells; it would stop at a full pipe."""
        if process.stdout is not None:
            with process.stdout as stream:
                while line := stream.readline(LONGEST_LINE):
                    if event := protocol.event(line.decode(errors="replace")):
                        if not event.startswith("Cmd:"):
                            self._last.append(event)
                        logs.info(event, daemon=process.pid)

    def _watch(self, process: Process, ended: threading.Event) -> None:
        """Wait for the daemon's end, and end its servers before its number can be another's."""
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        ended.set()
        self._on_end()


def _launch(command: list[str], env: dict[str, str], output: IO[bytes] | int) -> Process:
    return subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd="/",
        start_new_session=True,  # its servers are ended with it
    )


def require_multi_user(program: str = PROGRAM) -> None:
    """Return if the control program starts servers for clients of several users. NodeError: why it does not.

    Its help names no options, so it is started with this one, in a folder of its own.
    """
    starts, output = _starts(program, MULTI_USER)
    if not starts:
        raise NodeError(
            f"{program} has no servers for several users",
            cause=f"it does not take {MULTI_USER}{f': {output}' if output else ''}",
            hint=HINT,
        )
    if _starts(program, NO_OPTION)[0]:
        raise NodeError(
            f"whether {program} supports a multi-user server is not known",
            cause=f"it takes any option, also {NO_OPTION}",
            hint=HINT,
        )


def _starts(program: str, option: str) -> tuple[bool, str]:
    """Return whether the program becomes a control daemon with an option, and its last words."""
    with tempfile.TemporaryDirectory(prefix="gpu-mps-") as folder, tempfile.TemporaryFile() as log:
        places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        with failing(f"can't start {program}"):
            process = _launch([program, "-f", option], {**os.environ, **places}, log)
        deadline = time.monotonic() + ANSWER_SECONDS
        try:
            while process.poll() is None and not Path(folder, "control").exists():
                if time.monotonic() > deadline:
                    raise NodeError(
                        f"{program} neither starts nor ends within {ANSWER_SECONDS:g} seconds"
                    )
                time.sleep(PAUSE)
            starts = process.poll() is None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        lines = log.read().decode(errors="replace").split("\n")
        return starts, next((line for line in reversed(lines) if line.strip()), "")
