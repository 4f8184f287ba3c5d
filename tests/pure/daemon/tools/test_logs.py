# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's words: a fact is a line, for people and for machines."""

from __future__ import annotations

import json
import re
import socket
import threading
from pathlib import Path

import pytest
from gpu_plugin.tools import logs
from gpu_plugin.tools.logs import notify
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import LIMIT


def test_a_fact_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for tell, level, priority in (
        (logs.info, "info", 6),
        (logs.warning, "warning", 4),
        (logs.error, "error", 3),
    ):
        fields = {"gpu": "GPU-1", "cause": 'it "failed"\nbadly', "left": ("a", "b"), "none": None}
        words = r'devices changed gpu=GPU-1 cause="it \"failed\"\nbadly" left=a,b none=None'
        assert callable(tell), level
        monkeypatch.delenv("JOURNAL_STREAM", raising=False)
        tell("devices\nchanged", **fields)
        (line,) = capsys.readouterr().err.splitlines()
        assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{{4}} {level}: .*", line), (
            level
        )
        assert line.endswith(words), level
        monkeypatch.setenv("JOURNAL_STREAM", "8:1")
        tell("devices\nchanged", **fields)
        assert capsys.readouterr().err == f"<{priority}>{words}\n", level


@given(st.text())
def test_any_value_can_be_read_again(text: str) -> None:
    quoted = logs._quoted(text)
    assert "\n" not in quoted
    assert (json.loads(quoted) if quoted.startswith('"') else quoted) == text


@pytest.mark.attack("terminal-escapes")
def test_what_tenants_write_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A control daemon's own words, as events, have what its clients say."""
    for hostile in ("\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe", "a\rb"):
        logs.info(f"client said {hostile}", command=hostile)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.isprintable(), hostile


def test_a_service_manager_that_does_not_read_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "n"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        notify("READY=1", "STATUS=serving")
        monkeypatch.setattr(logs, "PATIENCE", LIMIT)  # which nobody waits
        for _time in range(2000):
            notify("WATCHDOG=1")
        monkeypatch.setattr(logs, "PATIENCE", 0.01)
        notify("READY=1")  # waited for, and given up
        assert manager.recv(100) == b"READY=1\nSTATUS=serving"


def test_without_a_service_manager_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", lambda *_args: pytest.fail("to whom?"))
        notify("READY=1")


def test_a_service_manager_that_is_gone_ends_nothing_and_hears_what_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
    notify("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
        manager.bind(str(tmp_path / "n"))
        notify("STATUS=later")
        assert manager.recv(100) == b"STATUS=later"


def test_lines_of_several_threads_stay_whole(capfd: pytest.CaptureFixture[str]) -> None:
    def tell(number: int) -> None:
        for line in range(200):
            logs.info("event", thread=number, line=line, text="x" * 200)

    threads = [threading.Thread(target=tell, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1600
    for line in lines:
        assert re.fullmatch(r"\S+ info: event thread=\d line=\d+ text=x{200}", line)
