# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Helper processes are waited for until they are ready, and until they are gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import helper_process
from tests.support.helper_process import runs

ENDLESS = "import sys\nprint('ready', flush=True)\nsys.stdin.read()"
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ENDLESS
PIPE = subprocess.PIPE


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_process_is_ready_once_its_file_exists(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    code = f"import pathlib\npathlib.Path({str(path)!r}).touch()\n{ENDLESS}"
    with helper_process.start(
        python(code), ready=helper_process.exists(path), stdin=PIPE, stdout=PIPE
    ) as process:
        assert path.exists()
        assert process.poll() is None
    assert process.returncode == -signal.SIGKILL


def test_a_process_that_ends_before_it_is_ready_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with status 3 before it was ready"):
        helper_process.start(
            python("raise SystemExit(3)"), ready=helper_process.exists(tmp_path / "socket")
        )
    with pytest.raises(AssertionError, match="ended before it was ready"):
        helper_process.start(python("pass"), ready=helper_process.printed(), stdout=PIPE)


@pytest.mark.parametrize("text", [True, False])
def test_a_process_that_prints_another_line_is_an_error(text: bool) -> None:
    with pytest.raises(AssertionError, match="printed"):
        helper_process.start(
            python(ENDLESS),
            ready=helper_process.printed("begun"),
            stdin=PIPE,
            stdout=PIPE,
            text=text,
        )


def test_a_killed_and_a_terminated_process_are_gone() -> None:
    for end in (helper_process.HelperProcess.kill, helper_process.HelperProcess.terminate):
        process = helper_process.start(
            python(ENDLESS), ready=helper_process.printed("ready"), stdin=PIPE, stdout=PIPE
        )
        end(process)
        assert process.returncode is not None
        process.close()


def test_a_process_that_does_not_end_is_killed_after_a_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = helper_process.start(
        python(DEAF), ready=helper_process.printed("ready"), stdin=PIPE, stdout=PIPE
    )
    wait = helper_process.HelperProcess.wait
    hangs = iter([0.0])
    monkeypatch.setattr(
        helper_process.HelperProcess, "wait", lambda self: wait(self, next(hangs, None))
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.terminate()
    assert process.returncode == -signal.SIGKILL
    process.close()


def test_a_detached_process_is_gone_with_its_socket(tmp_path: Path) -> None:
    pid, left = tmp_path / "pid", tmp_path / "socket"
    child = (
        "import os, pathlib, signal, sys\n"
        f"left = pathlib.Path({str(left)!r})\n"
        "signal.signal(signal.SIGTERM, lambda *_: (left.unlink(), sys.exit()))\n"
        f"left.touch()\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "while True: signal.pause()\n"
    )
    daemon = ["sh", "-c", 'setsid "$@" &', "sh", *python(child)]
    number = int(
        helper_process.start_detached(daemon, ready=lambda: pid.exists() and pid.read_text())
    )
    helper_process.end_detached(number, left)
    assert not runs(number)
    assert not left.exists()
    helper_process.end_detached(number)
