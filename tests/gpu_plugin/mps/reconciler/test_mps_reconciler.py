# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""When managers of MPS daemons are started, restarted and stopped, and what is said meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.mps import reconciler as units
from gpu_plugin.mps.reconciler import AGAIN, BLIP, Reconciler
from gpu_plugin.mps.settings import Offer, Settings, from_json
from gpu_plugin.mps.verdict import Act
from mps_builders import NOBODY, OTHER, UUID, offer, state
from mps_running import ROOTS_ALONE
from running import eventually


class Units:
    """Notes what is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def ask(self, act: Act, managers: Mapping[str, int]) -> None:
        self.asked.append((act.value, *managers))

    def close(self, managers: Mapping[str, int]) -> None:
        self.closed = dict(managers)

    def since(self) -> list[tuple[str, ...]]:
        asked, self.asked = self.asked, []
        return asked


class Scene:
    """A reconciler of managers that the test itself plays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir()
        self.now = 100.0
        self.units = Units()
        self.reconciler = Reconciler(folder / "mps", self.units, lambda: self.now)

    def tell(self, one: Offer, *words: Any, **more: Any) -> None:
        path = self.root / f"{one.names.device}.json.new"
        path.write_text(json.dumps({**state(one, *words), **more}))
        path.rename(self.root / f"{one.names.device}.json")

    def offer(self, device: str = UUID, **more: Any) -> Offer:
        return offer(device, str(self.root), **more)

    def settings(self, device: str = UUID) -> Settings:
        return from_json((self.folder / f"mps/{device}.settings.json").read_text())

    def want(self, *offers: Offer) -> dict[str, str]:
        self.reconciler.want({one.names.device: one for one in offers}, str(self.root))
        return self.reconciler.problems()

    def tick(self, seconds: float = 0.0) -> dict[str, str]:
        self.now += seconds
        self.reconciler.tick()
        return self.reconciler.problems()


@pytest.fixture
def scene() -> Iterator[Scene]:
    if os.geteuid() != 0:
        pytest.skip("where root alone may write can be written by root only")
    folder = tempfile.mkdtemp(prefix="s-", dir=ROOTS_ALONE)  # short, for the sockets' sake
    yield Scene(Path(folder))
    shutil.rmtree(folder)


def test_from_start_to_end(scene: Scene) -> None:
    one, other = scene.offer(), scene.offer(OTHER)
    assert scene.want(one, other).keys() == {UUID, OTHER}
    assert scene.units.since() == [("start", UUID, OTHER)]
    path = scene.folder / f"mps/{UUID}.settings.json"
    assert from_json(path.read_text()) == one.settings
    assert path.stat().st_mode & 0o777 == 0o644
    scene.tell(one)
    scene.tell(other)
    assert scene.tick(0.1) == {}
    assert scene.want(one) == {OTHER: "the MPS daemon that shared it is about to end"}
    assert scene.units.since() == [("stop", OTHER)]
    assert not (scene.folder / f"mps/{OTHER}.settings.json").exists()
    (scene.root / f"{OTHER}.json").unlink()
    assert scene.tick(0.1) == {}
    assert scene.units.since() == []


def test_the_end_concerns_those_that_run_and_nobody_before_a_beginning(scene: Scene) -> None:
    one, other = scene.offer(), scene.offer(OTHER)
    scene.want(one, other)
    scene.tell(one)
    scene.tell(other, pid=NOBODY)
    Reconciler(scene.folder / "mps", scene.units).close()
    assert scene.units.closed == {}
    scene.reconciler.close()
    assert scene.units.closed == {UUID: os.getpid(), OTHER: 0}


def test_what_has_no_effect_is_asked_for_again_but_not_at_once(scene: Scene) -> None:
    scene.want(scene.offer())
    scene.tick(AGAIN / 2)
    assert scene.units.since() == [("start", UUID)]
    scene.tick(AGAIN)
    assert scene.units.since() == [("start", UUID)]


def test_nothing_happens_before_it_is_known_what_is_wanted(scene: Scene) -> None:
    one = scene.offer()
    scene.want(one)
    scene.tell(one)
    fresh = Reconciler(scene.folder / "mps", scene.units)
    scene.units.since()
    fresh.tick()
    assert scene.units.since() == []
    assert (scene.folder / f"mps/{UUID}.settings.json").exists()
    fresh.want({UUID: one}, str(scene.root))
    assert (scene.units.since(), fresh.problems()) == ([], {})


def test_a_change_waits_for_clients(scene: Scene) -> None:
    one, other = scene.offer(), scene.offer(replicas=2)
    scene.want(one)
    scene.tell(one, "ready", 1)
    assert scene.tick() == {}
    scene.units.since()
    assert scene.want(other) == {UUID: "its limits change when its last client has ended"}
    assert scene.reconciler.describe()[UUID]["waits_for_clients"] is True
    assert scene.settings() == one.settings
    assert scene.units.since() == []
    scene.tell(one)
    scene.tick(0.5)
    assert scene.units.since() == [("restart", UUID)]
    assert scene.settings() == other.settings


def test_a_change_is_refused_where_that_is_asked_for(scene: Scene) -> None:
    one = scene.offer()
    scene.want(one)
    scene.tell(one, "ready", 3)
    for other, words in (
        (scene.offer(replicas=2), ""),
        (scene.offer(on_busy="refuse"), "its 3 clients have ended, and onBusy is refuse"),
        (scene.offer(replicas=2, on_busy="terminate"), ""),
    ):
        found = scene.reconciler.refuses({UUID: other})
        assert found.endswith(words)
        assert bool(found) == bool(words)
    assert scene.reconciler.refuses({}) == ""
    scene.want(scene.offer(on_busy="refuse"))
    assert "it was shared by MPS, and its 3 clients" in scene.reconciler.refuses({})


def test_a_plugin_that_begins_refuses_too(scene: Scene) -> None:
    before, now = scene.offer(on_busy="refuse"), scene.offer(replicas=2, on_busy="refuse")
    scene.want(before)
    scene.tell(before, "ready", 3)
    scene.units.since()
    fresh = Reconciler(scene.folder / "mps", scene.units)
    assert "its 3 clients have ended, and onBusy is" in fresh.refuses_to_begin({UUID: now})
    assert "it was shared by MPS, and its 3 clients" in fresh.refuses_to_begin({})
    assert fresh.refuses_to_begin({UUID: before}) == ""
    assert fresh.refuses_to_begin({UUID: scene.offer(replicas=2)}) == ""  # which waits
    fresh.tick()
    assert scene.units.since() == []
    scene.tell(before)
    assert fresh.refuses_to_begin({UUID: now}) == ""
    fresh.want({UUID: now}, str(scene.root))
    scene.tell(now, "ready", 3)
    assert fresh.refuses({}) != ""
    assert fresh.refuses_to_begin({}) == ""  # that is for a change to ask


def test_a_daemon_that_was_soon_back_was_away(scene: Scene) -> None:
    one = scene.offer()
    scene.want(one)
    scene.tell(one)
    assert scene.tick() == {}
    child = subprocess.Popen(["sleep", "60"])
    scene.tell(one, daemon=child.pid)
    assert scene.tick(0.1) == {UUID: "its MPS daemon ended and runs again"}
    assert scene.tick(BLIP / 2) == {UUID: "its MPS daemon ended and runs again"}
    assert scene.tick(BLIP) == {}
    child.kill()
    child.wait()
    assert scene.tick(0.1) == {UUID: "its MPS daemon ended"}


def test_number_of_a_process_that_is_another_one_now(scene: Scene) -> None:
    one = scene.offer()
    scene.want(one)
    scene.tell(one, began="1")
    assert scene.tick(0.1) == {UUID: "its MPS daemon's manager was killed"}
    scene.tell(one, pid=NOBODY)
    assert scene.tick(0.1) == {UUID: "its MPS daemon's manager was killed"}


def test_another_root_is_another_start(scene: Scene) -> None:
    one = scene.offer()
    scene.want(one)
    scene.tell(one)
    assert scene.tick() == {}
    scene.units.since()
    moved = offer(UUID, str(scene.folder / "new"))
    scene.reconciler.want({UUID: moved}, str(scene.folder / "new"))
    assert scene.units.since() == [("restart", UUID)]


@pytest.mark.parametrize("text", ["", "{", '{"version": 2}', "GPU_MPS_REPLICAS=4"])
def test_settings_that_can_not_be_read_are_others(scene: Scene, text: str) -> None:
    one, path = scene.offer(), scene.folder / f"mps/{UUID}.settings.json"
    path.parent.mkdir()
    path.write_text(text)
    scene.tell(one, "ready", 1)
    assert "its limits change" in scene.want(one)[UUID]
    scene.tell(one)
    scene.tick(0.1)
    assert scene.units.since() == [("restart", UUID)]
    assert scene.settings() == one.settings
    assert scene.tick(0.1) == {UUID: "its MPS daemon is about to end"}  # it is still that one
    assert scene.units.since() == []
    path.write_text(text)
    (scene.root / f"{UUID}.json").unlink()
    scene.want()
    assert scene.units.since() == [("start", UUID)]  # which cleans up, and ends then
    assert scene.settings() == Settings(1, root=str(scene.root))


def test_full_disk_is_said_and_tried_again(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    (scene.folder / "mps").write_text("in the way")
    assert scene.want(scene.offer())
    assert scene.units.since() == []
    assert "the settings of an MPS daemon can't be written" in capsys.readouterr().err
    (scene.folder / "mps").unlink()
    scene.tick()
    assert scene.units.since() == [("start", UUID)]


def test_systemd_is_asked_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ntest "$3" != stop || exit 5\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = units.choose("systemd", tmp_path)
    asked.ask(Act.START, {UUID: 0, OTHER: 0})
    asked.ask(Act.RESTART, {UUID: NOBODY})
    assert capsys.readouterr().err == ""
    asked.ask(Act.STOP, {OTHER: 0})
    assert "systemd does not stop MPS daemons" in capsys.readouterr().err
    asked.close({UUID: os.getpid()})
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"--no-block --quiet start gpu-mps@{UUID}.service gpu-mps@{OTHER}.service",
        f"--no-block --quiet restart gpu-mps@{UUID}.service",
        f"--no-block --quiet stop gpu-mps@{OTHER}.service",
    ]
    assert isinstance(units.choose("own", tmp_path), units.Children)


def test_only_managers_are_ended(tmp_path: Path) -> None:
    """A state file may name a process that is none, such as this one."""
    script = "import sys, time; time.sleep(60)"
    # Who runs the tests in the background has them ignore SIGINT.
    words = ["env", "--default-signal=INT", sys.executable, "-c", script, "mps", "run", "--device"]
    with subprocess.Popen([*words, UUID]) as manager, subprocess.Popen([*words, OTHER]) as other:
        for one in (
            manager,
            other,
        ):  # env has it done with, and its own signals are no longer ignored
            path = Path(f"/proc/{one.pid}/cmdline")
            eventually(lambda path=path: path.read_bytes().startswith(sys.executable.encode()))
        children = units.Children(tmp_path)
        children.ask(Act.STOP, {OTHER: os.getpid(), UUID: 0})
        children.ask(Act.STOP, {UUID: other.pid})
        children.ask(Act.STOP, {UUID: manager.pid})
        assert manager.wait(10) == -signal.SIGTERM
        assert other.poll() is None
        children.close({OTHER: other.pid, UUID: os.getpid()})
        assert other.wait(10) != 0
