# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""nvidia-cuda-mps-control: the daemon as a process, commands to it, and its capabilities."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

from .._shared._base.errors import NodeError
from ..model.mps.paths import PROGRAM, Names, daemon_environment
from ..model.mps.settings import Bounds
from ..tools import bounded, files, logs
from ..tools.files import failing
from ..tools.followed import Child, Events, Followed, Lines
from . import clients, folders, protocol
from .protocol import ControlError, Silent

MULTI_USER: Final = "-multiuser-server"
NO_OPTION: Final = "-no-such-option"
HINT: Final = "remove multiUser: true from sharing.mps, or install a driver whose program has it"
ANSWER_SECONDS: Final = 5.0
PAUSE: Final = 0.03
# The daemon's server and its clients have to see the same /dev/shm; only the daemon's is changed.
OWN_SHM: Final = ("unshare", "--mount", "--propagation", "slave", "--", "sh", "-c")
OWN_SHM_SCRIPT: Final = 'mount --bind "$0" /dev/shm && exec "$@"'
KEPT_FROM_DAEMON: Final = ("CUDA_", "NOTIFY_SOCKET", "WATCHDOG_", "JOURNAL_STREAM")


class Control:
    """A device's control daemon, which outlives this process. ``on_end`` is called when it has ended.

    It has ``patience`` seconds for an answer, and twice as many to begin.
    """

    def __init__(
        self,
        program: str,
        names: Names,
        events: Events,
        on_end: Callable[[], None],
        patience: float,
    ) -> None:
        self._program, self._names, self._patience = program, names, patience
        self._events, self._on_end = events, on_end
        self._process: Followed | None = None
        self._last: collections.deque[str] = collections.deque(maxlen=3)
        self._environment: dict[str, str] = {}
        self._tells_faults = True

    @property
    def pid(self) -> int:
        """The daemon's process; 0 when there is none."""
        return self._process.pid if self._process and self._process.living else 0

    def start(self, own: Path, options: Sequence[str], *, own_shm: bool) -> None:
        """Start the daemon in a directory of its own. It answers later: see wait()."""
        self._process = None  # the one before is over, whatever becomes of the next
        self._set_environment(str(own))
        command = [self._program, "-f", *options]
        if own_shm:
            command = [*OWN_SHM, OWN_SHM_SCRIPT, self._names.shm, *command]
        with folders.output(self._names) as output:
            with failing(f"can't start {self._program}", ControlError):
                child = _launch(command, self._environment, output)
            self._follow(child.pid, child)

    def adopt(self, pid: int, own: str) -> None:
        """Adopt the daemon that an earlier process started."""
        self._set_environment(own)
        self._follow(pid)

    def _set_environment(self, own: str) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(KEPT_FROM_DAEMON)}
        self._environment = {**inherited, **daemon_environment(self._names, own)}

    def _follow(self, pid: int, child: Child | None = None) -> None:
        self._last.clear()
        output = None
        with contextlib.suppress(OSError):  # the output of an adopted daemon is lost, then
            output = Lines(folders.open_output(self._names), self._events, self._log)
        self._process = Followed(pid, self._events, self._on_end, child, output)

    def look(self) -> None:
        """Notice the daemon's end if nothing else does. Only the events' thread may look."""
        if self._process and not self._process.noticed:
            self._process.look()

    def wait(self, own: Path) -> None:
        """Wait until the daemon answers.

        Raises:
            ControlError: if it ended.
            Silent: if it takes too long.
        """
        deadline = time.monotonic() + 2 * self._patience
        while not (own / folders.CONTROL).exists():
            self.check_alive()
            if time.monotonic() > deadline:
                raise Silent("the control daemon does not answer", cause="it makes no socket")
            time.sleep(PAUSE)
        self.ask(protocol.SERVERS, 2 * self._patience)

    def check_alive(self) -> None:
        """Return if the daemon runs.

        Raises:
            ControlError: if it ended, with its last output.
        """
        if self.pid:
            return
        status = self._process.status if self._process else None
        how = "it ended"
        if status is not None:
            how += f" with signal {abs(status)}" if status < 0 else f" with status {status}"
        raise ControlError("the control daemon ended", cause="; ".join([how, *self._last]))

    def ask(self, command: str, seconds: float | None = None) -> str:
        """Return the daemon's answer, for which it has ``seconds``, by default its patience.

        Raises:
            Silent: if it does not answer.
            ControlError: if it ended or refuses.
        """
        deadline = time.monotonic() + (self._patience if seconds is None else seconds)
        answer_text = ""
        while True:
            output, problem = self._say(protocol.question(command), deadline - time.monotonic())
            answer, answer_text = protocol.answer(output), output or answer_text
            if answer is not None:
                break
            self.check_alive()
            if time.monotonic() > deadline:
                raise protocol.lost(answer_text, problem)
            time.sleep(PAUSE)
        if refused := protocol.refusal(answer):
            raise ControlError(f"the control daemon refuses {command}", cause=refused)
        return answer

    def has_fault(self, server: int) -> bool:
        """Return whether a server takes no clients since a fault of one; older programs do not say it."""
        if not self._tells_faults:
            return False
        try:
            return self.ask(f"get_server_status {server}").strip() == protocol.FAULT
        except ControlError as error:
            if not error.cause.startswith(protocol.UNKNOWN):
                raise
            self._tells_faults = False
            return False

    def clients_of(self, server: int, bounds: Bounds | None) -> tuple[int, ...]:
        """Return a server's clients, and restore its limits, which MPS lets root and the server's user change."""
        answer = self.ask(protocol.poll(server))
        if protocol.gone(answer):
            return ()
        result, holds = protocol.polled(answer, bounds)
        if bounds and not holds:
            logs.warning(
                "a client changed the limits of its MPS server, setting them again",
                device=self._names.device,
                server=server,
                clients=clients.described(result),
            )
            for setting in protocol.settings(bounds, server):
                self.ask(setting.set)
        return result

    def _say(self, text: str, seconds: float) -> tuple[str, str]:
        """Return what the program answers, and what went wrong."""
        with failing(f"can't start {self._program}", ControlError):
            completed = bounded.run([self._program], text, self._environment, max(seconds, PAUSE))
        return completed.out, completed.err.strip() or f"status {completed.rc}"

    def quit(self, drain: float, go_on: Callable[[], bool]) -> None:
        """End the daemon: no new clients, and so many seconds for those that are there.

        It is left as it is once ``go_on`` returns False.
        """
        deadline = time.monotonic() + drain + self._patience
        with contextlib.suppress(ControlError):
            while self.pid and time.monotonic() < deadline:  # somebody else may cut us off
                self._say(f"quit -t {max(round(drain), 1)}\n", deadline - time.monotonic())
                if not go_on():
                    return
                if self._process:
                    self._process.wait(1)
        self.kill()

    def kill(self) -> None:
        """End what is left of the daemon and its servers."""
        if self._process:
            self._process.kill()

    def _log(self, line: bytes) -> None:
        """Log a line of the daemon's output."""
        if event := protocol.event(line.decode(errors="replace")):
            if not event.startswith("Cmd:"):
                self._last.append(event)
            logs.info(event, device=self._names.device, daemon=self.pid)


def _launch(command: list[str], env: dict[str, str], output: IO[bytes] | int) -> Child:
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
    """Check that the control program starts servers for clients of several users.

    Its help names no options, so it is started with this one, in a folder of its own: once, as that may take seconds.

    Raises:
        NodeError: if it does not.
    """
    starts, output, anything = _tried(program, files.stamp(shutil.which(program) or program))
    if not starts:
        raise NodeError(
            f"{program} has no servers for several users",
            cause=f"it does not take {MULTI_USER}{f': {output}' if output else ''}",
            hint=HINT,
        )
    if anything:
        raise NodeError(
            f"whether {program} supports a multi-user server is not known",
            cause=f"it takes any option, also {NO_OPTION}",
            hint=HINT,
        )


def has_multi_user(program: str = PROGRAM) -> bool:
    """Return whether clients of all users can have one server. Else it is one user's, whose clients may command it."""
    return _serves_all_users(program, files.stamp(shutil.which(program) or program))


@functools.lru_cache(maxsize=1)
def _serves_all_users(program: str, _stamp: files.Stamp | None) -> bool:
    try:
        require_multi_user(program)
    except NodeError as error:
        logs.info("MPS serves one user at a time on each GPU", cause=error.cause or str(error))
        return False
    return True


@functools.lru_cache(maxsize=1)
def _tried(program: str, _stamp: files.Stamp | None) -> tuple[bool, str, bool]:
    """Return whether a program starts with our option, its last words, and whether it does so with any."""
    starts, output = _starts(program, MULTI_USER)
    return starts, output, starts and _starts(program, NO_OPTION)[0]


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
