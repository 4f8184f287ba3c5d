# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A package manager that is at work on a machine of rpm's until the test lets it end."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

from tests.fakes.played.rpm_machine import RpmMachine
from tests.fakes.played.rpms import Rpm
from tests.support import helper_process
from tests.support.waiting import LIMIT, eventually

STARTED, GATE = "started", "gate"
# It says that it is there, and reads from a pipe until somebody has written to it.
WAIT = f"""\
io.open("/{STARTED}", "w"):close()
io.open("/{GATE}"):read("*l")
"""
SLOW = Rpm("slow", "1-1", scripts=(("pre", WAIT),))


class Other:
    """The process of another, which installs the package slow."""

    def __init__(self, node: RpmMachine, process: subprocess.Popen[bytes]) -> None:
        self._gate, self._process = node.root / GATE, process

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Let it end, and wait for that."""
        if self.runs:
            self._gate.write_text("on\n")
            assert self._process.wait(LIMIT) == 0


@contextlib.contextmanager
def installing(node: RpmMachine, *words: str) -> Iterator[Other]:
    """Have another process install the package slow with these words, and wait until it is at it."""
    os.mkfifo(node.root / GATE)
    argv, env = node.command((*words, SLOW.name))
    quiet = subprocess.DEVNULL
    with helper_process.start(
        argv, env={**os.environ, **env}, stdout=quiet, stderr=quiet, ready=helper_process.executed
    ) as process:
        other = Other(node, process)
        try:
            eventually(lambda: (node.root / STARTED).exists() or not other.runs)
            assert other.runs
            yield other
        finally:
            process.kill()
