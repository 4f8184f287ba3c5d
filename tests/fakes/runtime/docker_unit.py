# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine dockerd as the unit docker.service of a machine; what systemd would do is done here."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from ansible_collections.gpu.node.plugins.module_utils._runtime.start_command import (
    environment_file,
    expanded,
)

from tests.fakes.runtime.genuine_runtimes import GenuineRuntimes
from tests.support import helper_process
from tests.support.waiting import eventually

OPTIONS = "/etc/default/docker"
SOCKET = "/var/run/docker.sock"
# What a machine without networks and disks of its own lets a daemon do.
COMMAND = "/usr/sbin/dockerd --bridge=none --iptables=false --ip6tables=false --storage-driver=vfs"
STATES = {True: "active", False: "failed"}


class DockerUnit(GenuineRuntimes):
    """A machine whose docker.service starts dockerd with the options of /etc/default/docker."""

    def __init__(self, root: Path, suite: str, files: dict[str, str] | None = None) -> None:
        super().__init__(root, suite, files)
        self.install_docker()
        del self.answers["systemctl"]
        self.command = f"{COMMAND} $DOCKER_OPTS"
        self.daemon: subprocess.Popen[bytes] | None = None
        self.log = root / "dockerd.log"
        self.began = self.changed = 0.0
        self.hides_commands = False  # as where a script starts dockerd
        self.put(
            "/tools/docker-init", "#!/bin/sh\necho tini version 0.19.0\n"
        )  # it warns at each question where it has none
        (root / "tools/docker-init").chmod(0o755)

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

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in ("systemctl", "journalctl") else super().which(name)

    def at(self, path: str) -> str:
        real = path.startswith("/proc/") and not self.hides_commands
        return path if real else super().at(path)

    def status(self, path: str):  # type: ignore[no-untyped-def]
        return super().status(self.at(path))

    def is_active(self) -> bool:
        """Return whether dockerd runs."""
        return self.daemon is not None and self.daemon.poll() is None

    def _systemctl(self, argv: Sequence[str]) -> Completed:
        if argv[0] == "show":
            return Completed(0, "\n".join(self._properties()), "")
        if argv[0] in ("start", "restart"):
            self.stop()
            self.start()
            return Completed(0 if self.is_active() else 1, "", "Job for docker.service failed.")
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
        yield f"EnvironmentFiles={OPTIONS} (ignore_errors=yes)"
        yield "FragmentPath=/usr/lib/systemd/system/docker.service"

    def start(self) -> None:
        """Start dockerd, and wait until it answers or has ended."""
        environment = environment_file(self.read(OPTIONS) or "")
        _program, *args = expanded(shlex.split(self.command), environment)
        program = self.programs["dockerd"]
        folders = {str(one.parent) for one in self.programs.values()}
        path = ":".join(
            [*folders, str(self.root / "tools"), os.environ["PATH"], "/usr/sbin", "/sbin"]
        )
        command = ["unshare", "--net", *self.inside(), str(program), *args]
        with self.log.open("ab") as log:
            self.daemon = helper_process.start(
                command, stdout=log, stderr=log, env={"PATH": path}, ready=helper_process.executed
            )
        eventually(lambda: not self.is_active() or Host.ask(self, self.at(SOCKET), "/info"))
        self.note_change()

    def note_change(self) -> None:
        """Have systemd know of a start at this moment."""
        self.began = self.changed = time.clock_gettime(time.CLOCK_MONOTONIC)

    def stop(self) -> None:
        """End dockerd, and its containerd with it."""
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait()
            self.changed = time.clock_gettime(time.CLOCK_MONOTONIC)


@contextmanager
def docker_unit(root: Path, suite: str, files: dict[str, str]) -> Iterator[DockerUnit]:
    """Have such a machine, whose dockerd runs, for the time of a with statement."""
    node = DockerUnit(root, suite, files)
    try:
        node.start()
        assert node.is_active(), node.log.read_text()
        yield node
    finally:
        node.stop()
