# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A genuine daemon as a unit of a machine; what systemd would do is done here."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._runtime.start_command import expanded

from tests.fakes.runtime.genuine_runtimes import GenuineRuntimes
from tests.support import helper_process
from tests.support.waiting import eventually

STATES = {True: "active", False: "failed"}


class DaemonUnit(GenuineRuntimes):
    """A machine with a unit that starts a daemon by a command of systemd's form."""

    unit = ""
    command = ""

    def __init__(self, root: Path, suite: str, files: dict[str, str] | None = None) -> None:
        super().__init__(root, suite, files)
        del self.answers["systemctl"]
        self.daemon: subprocess.Popen[bytes] | None = None
        self.log = root / "daemon.log"
        self.began = self.changed = 0.0
        self.hides_commands = False  # as where a script starts the daemon
        self._mounts: int | None = None  # the process whose mounts all commands see

    def run(self, argv, **values):  # type: ignore[no-untyped-def]
        if argv[0] == "systemctl":
            done = self._systemctl(argv[1:])
        elif argv[0] == "journalctl":
            lines = self.log.read_text().splitlines()[-15:] if self.log.exists() else []
            done = Completed(0, "\n".join(lines), "")
        else:
            return super().run(argv, **values)
        if done.rc and values.get("check", True):
            raise AssertionError(argv)
        return done

    def inside(self) -> list[str]:
        if self._mounts is None:
            return super().inside()
        return ["nsenter", f"--mount=/proc/{self._mounts}/ns/mnt"]

    @contextmanager
    def mounts(self) -> Iterator[None]:
        """Let mounts of the daemon outlive it, as those of pods do, for the time of a with statement."""
        holder = helper_process.start(
            [*self.inside(), "sh", "-c", "echo; exec sleep infinity"],
            stdout=subprocess.PIPE,
            ready=helper_process.printed(),
        )
        with holder:
            self._mounts = holder.pid
            yield
            self._mounts = None

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in ("systemctl", "journalctl") else super().which(name)

    def at(self, path: str) -> str:
        real = path == "/proc" or path.startswith("/proc/")
        return path if real and not self.hides_commands else super().at(path)

    def status(self, path: str):  # type: ignore[no-untyped-def]
        return super().status(self.at(path))

    def is_active(self) -> bool:
        """Return whether the daemon runs."""
        return self.daemon is not None and self.daemon.poll() is None

    def _systemctl(self, argv: Sequence[str]) -> Completed:
        if argv[0] == "show":
            return Completed(0, "\n".join(self._properties()), "")
        if argv[0] in ("start", "restart"):
            self.stop()
            self.start()
            return Completed(0 if self.is_active() else 1, "", f"Job for {self.unit} failed.")
        if argv[0] == "reload":
            assert self.daemon is not None
            self.daemon.send_signal(signal.SIGHUP)
            self.changed = time.clock_gettime(time.CLOCK_MONOTONIC)
        return Completed(0, "", "")

    def _properties(self) -> Iterator[str]:
        active = self.is_active()
        yield f"MainPID={self.daemon.pid if self.daemon is not None and active else 0}"
        yield "LoadState=loaded"
        yield f"ActiveState={STATES[active]}"
        yield f"ActiveEnterTimestampMonotonic={int(self.began * 1e6)}"
        yield f"StateChangeTimestampMonotonic={int(self.changed * 1e6)}"
        command = "/usr/bin/start" if self.hides_commands else self.command
        yield f"ExecStart={{ path={command.split()[0]} ; argv[]={command} ; ignore_errors=no ; }}"
        yield f"FragmentPath=/usr/lib/systemd/system/{self.unit}"

    def environment(self) -> dict[str, str]:
        """Return the variables of the unit."""
        return {}

    def answers_clients(self) -> bool:
        """Return whether the daemon serves its clients."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the daemon, and wait until it answers or has ended."""
        _program, *args = expanded(shlex.split(self.command), self.environment())
        program = self.programs[Path(self.command.split()[0]).name]
        folders = {str(path.parent) for path in self.programs.values()}
        tools = str(self.root / "tools")
        path = ":".join([*folders, tools, os.environ["PATH"], "/usr/sbin", "/sbin"])
        command = ["unshare", "--net", *self.inside(), str(program), *args]
        with self.log.open("ab") as log:
            self.daemon = helper_process.start(
                command,
                stdout=log,
                stderr=log,
                env={**self.environment(), "PATH": path},
                ready=helper_process.executed,
            )
        eventually(lambda: not self.is_active() or self.answers_clients())
        self.note_change()

    def note_change(self) -> None:
        """Have systemd know of a start at this moment."""
        self.began = self.changed = time.clock_gettime(time.CLOCK_MONOTONIC)

    def stop(self) -> None:
        """End the daemon. Its containers' own processes run on."""
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait()
            self.changed = time.clock_gettime(time.CLOCK_MONOTONIC)

    def prepare(self) -> None:
        """Bring what the daemon needs before its first start."""

    def end_containers(self) -> None:
        """End all containers, for which the daemon runs."""


Unit = TypeVar("Unit", bound=DaemonUnit)


@contextmanager
def started(node: Unit) -> Iterator[Unit]:
    """Have a machine's daemon run for the time of a with statement."""
    with node.mounts():
        try:
            node.prepare()
            node.start()
            assert node.is_active(), node.log.read_text()
            yield node
        finally:
            if node.is_active():
                node.end_containers()
            node.stop()
