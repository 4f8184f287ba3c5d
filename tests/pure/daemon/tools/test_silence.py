# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is said of a device plugin whose state is old, or is not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpu_plugin._shared._device_plugin import instance_lock
from gpu_plugin.tools import status

from tests.fakes.clock import Clock


def test_a_state_is_old_once_the_process_has_not_renewed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(now=1000.0)
    monkeypatch.setattr(status, "time", clock)
    path = tmp_path / "status.json"
    assert status.staleness(path) == ""
    path.touch()
    os.utime(path, (1000, 1000))
    assert status.staleness(path) == ""
    clock.now += 300
    assert status.staleness(path).startswith("this is what gpu-plugin knew 300 seconds ago")


def test_a_plugin_is_said_to_run_by_its_lock_and_not_by_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "status.json"
    assert status.silence(path) == status.ENDED
    (tmp_path / instance_lock.FILE).touch()
    assert status.silence(path) == status.ENDED
    monkeypatch.setattr(status.Host, "lock_holder", lambda _host, _path: 77)
    assert "gpu-plugin runs (process 77) and can't write" in status.silence(path)
    monkeypatch.setattr(status.Host, "lock_holder", lambda _host, _path: None)
    monkeypatch.setattr(os, "access", lambda *_about: False)
    assert "is for root alone to see" in status.silence(path)
