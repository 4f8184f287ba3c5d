# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What systemd is told, and that it can be as slow as it likes."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from gpu_plugin.tools import notify as module
from gpu_plugin.tools.notify import notify


def test_a_service_manager_that_does_not_read_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "n"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        notify("READY=1", "STATUS=serving")
        start = time.monotonic()
        for _time in range(2000):
            notify("WATCHDOG=1")
        assert time.monotonic() - start < 2
        notify("READY=1")
        assert manager.recv(100) == b"READY=1\nSTATUS=serving"


def test_without_a_service_manager_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
    assert not (tmp_path / "gone").exists()
