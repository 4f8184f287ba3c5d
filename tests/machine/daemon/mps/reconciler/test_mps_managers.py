# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who runs the manager of MPS daemons: systemd, or the plugin itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.mps import units

from tests.support import helper_process
from tests.support.waiting import eventually


def test_systemd_is_asked_in_words_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, gate = tmp_path / "systemctl", tmp_path / "gate"
    os.mkfifo(gate)
    program.write_text(f'#!/bin/sh\nread _ < {gate}\necho "$@" >> {tmp_path}/asked\nexit 5\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = units.choose("systemd", tmp_path)
    for _again in range(3):
        asked.run()  # while the first one does not end
    gate.write_text("\n")
    told: list[str] = []

    def refused() -> bool:
        told.append(capsys.readouterr().err)
        return "systemd does not start the MPS manager" in "".join(told)

    eventually(refused)
    asked.close(os.getpid())
    words = "--no-block --quiet start gpu-mps.service"
    assert (tmp_path / "asked").read_text().splitlines() == [words]
    assert isinstance(units.choose("own", tmp_path), units.Children)


@pytest.fixture
def processes() -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """One that looks like a manager, and one that looks like who asks for its state."""
    # Who runs the tests in the background has them ignore SIGINT.
    words = ["env", "--default-signal=INT", sys.executable, "-c", "import sys; sys.stdin.read()"]
    found = [
        helper_process.start(
            [*words, "mps", verb], stdin=subprocess.PIPE, ready=helper_process.executed
        )
        for verb in ("run", "status")
    ]
    yield found[0], found[1]
    for one in found:
        one.close()


def test_only_a_manager_is_ended(
    processes: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """A state file may name a process that is none, such as this one."""
    for one in processes:
        path = Path(f"/proc/{one.pid}/cmdline")
        eventually(lambda path=path: path.read_bytes().startswith(sys.executable.encode()))
    manager, other = processes
    children = units.Children(tmp_path)
    for pid in (os.getpid(), 0, other.pid):
        children.close(pid)
    assert other.poll() is None
    children.close(manager.pid)
    assert manager.wait() != 0
