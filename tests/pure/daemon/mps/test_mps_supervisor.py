# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How a device's supervisor goes on where nothing works, and which settings the manager takes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.model.mps import paths
from gpu_plugin.model.mps.paths import Names, settings_file
from gpu_plugin.model.mps.settings import Settings
from gpu_plugin.mps import device, folders, supervisor
from gpu_plugin.mps.manager import SettingsFolder
from gpu_plugin.mps.supervisor import Options, Supervisor
from gpu_plugin.tools.followed import Events

from tests.fakes.host.old_times import rewrite_with_old_time

UUID = "GPU-00000000-0000-0000-0000-000000000000"


class Event:
    """An event that nobody sets: each wait for it is noted, and is over at once."""

    def __init__(self, waited: list[float]) -> None:
        self._waited = waited

    def wait(self, seconds: float) -> bool:
        self._waited.append(seconds)
        return False

    def set(self) -> None:
        pass

    clear = set


class Thread:
    """A thread that does its work as it is started."""

    def __init__(self, target: Callable[[], None], name: str, daemon: bool) -> None:
        self.start = target


def test_daemon_that_ends_again_and_again_is_given_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def prepare(*_arguments: object) -> None:
        if len(waited) == 9:
            one.leave()
        raise NodeError("it ended")

    fake = SimpleNamespace(Event=lambda: Event(waited), Thread=Thread)
    monkeypatch.setattr(supervisor, "threading", fake)
    monkeypatch.setattr(folders, "locked", lambda _names: contextlib.nullcontext())
    monkeypatch.setattr(device, "prepare", prepare)
    monkeypatch.setattr(paths, "LONGEST_SOCKET", 1000)
    names = Names(UUID, str(tmp_path))
    one = Supervisor(names, Settings(2), tmp_path / "kept", Options(), Events())
    one.start()
    assert waited == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0]


def test_settings_that_can_not_be_used_are_said_and_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, good = SettingsFolder(tmp_path), Settings(4, multi_user=False)
    path = Path(settings_file(UUID, str(tmp_path)))
    path.write_text(good.to_json())
    folder.look()
    for text, words in (
        ("GPU_MPS_REPLICAS=4\n", "it is no JSON"),
        (good.to_json().replace('"drain"', '"drian"'), "'drian' is no setting"),
    ):
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)
        folder.look()
        told = capsys.readouterr().err
        assert f"the settings in {path} can't be used" in told
        assert words in told
        assert folder.settings == {UUID: good}


def test_settings_that_are_put_back_with_their_old_times_are_read(tmp_path: Path) -> None:
    folder, path = SettingsFolder(tmp_path), Path(settings_file(UUID, str(tmp_path)))
    path.write_text(Settings(4, multi_user=False).to_json())
    os.utime(tmp_path, (1000, 1000))
    folder.look()
    rewrite_with_old_time(path, Settings(2, multi_user=False).to_json())
    os.utime(tmp_path, (1000, 1000))
    folder.look()
    assert folder.settings == {UUID: Settings(2, multi_user=False)}
