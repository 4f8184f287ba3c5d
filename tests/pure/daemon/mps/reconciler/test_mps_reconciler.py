# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the plugin has the manager of MPS daemons do, and what is said meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.model.mps import paths
from gpu_plugin.model.mps.settings import Offer, Settings, from_json
from gpu_plugin.mps import folders, reconciler
from gpu_plugin.mps import state as state_module
from gpu_plugin.mps.reconciler import ADOPTION, AGAIN, BLIP, Reconciler
from gpu_plugin.tools import files as tools_files
from gpu_plugin.tools.files import started

from tests.fakes.mps.mps_builders import NOBODY, OTHER, UUID, offer, state

KILLED = "its MPS manager was killed"


class Units:
    """Notes what is asked for."""

    def __init__(self) -> None:
        self.starts = 0
        self.closed: int | None = None

    def run(self) -> None:
        self.starts += 1

    def close(self, manager: int) -> None:
        self.closed = manager


class Scene:
    """A reconciler with a manager that the test itself plays."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.settings = folder, folder / "mps"
        self.root = folder / "root"
        self.root.mkdir()
        self.now = 100.0
        self.units = Units()
        self.reconciler = self.another()

    def another(self) -> Reconciler:
        return Reconciler(self.settings, self.units, lambda: self.now)

    def manager(self, *devices: str, pid: int = 0) -> None:
        pid = pid or os.getpid()
        told = {"version": 1, "pid": pid, "began": started(pid) or "1"}
        self.settings.mkdir(exist_ok=True)
        self._write(
            self.settings / "manager.json",
            {**told, "devices": dict.fromkeys(devices, str(self.root))},
        )

    def tell(self, one: Offer, *words: Any, **more: Any) -> None:
        self._write(self.root / f"{one.names.device}.json", {**state(one, *words), **more})

    @staticmethod
    def _write(path: Path, data: dict[str, Any]) -> None:
        fresh = path.with_name(f"{path.name}.new")
        fresh.write_text(json.dumps(data))
        fresh.rename(path)

    def offer(self, device: str = UUID, **more: Any) -> Offer:
        return offer(device, str(self.root), **more)

    def file(self, device: str = UUID) -> Path:
        return self.settings / f"{device}.settings.json"

    def written(self, device: str = UUID) -> Settings:
        return from_json(self.file(device).read_text())

    def want(self, *offers: Offer) -> dict[str, str]:
        self.reconciler.want({one.names.device: one for one in offers}, str(self.root))
        return self.reconciler.problems()

    def tick(self, seconds: float = 0.0) -> dict[str, str]:
        self.now += seconds
        self.reconciler.tick()
        return self.reconciler.problems()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(folders, "refusal", lambda _root: "")  # others may write above the test's
    monkeypatch.setattr(paths, "LONGEST_SOCKET", 1000)
    return Scene(tmp_path)


def test_from_start_to_end(scene: Scene) -> None:
    one, other = scene.offer(), scene.offer(OTHER)
    assert scene.want(one, other).keys() == {UUID, OTHER}
    assert scene.units.starts == 1
    assert scene.written() == one.settings
    assert scene.file().stat().st_mode & 0o777 == 0o644
    scene.manager(UUID, OTHER)
    scene.tell(one)
    scene.tell(other)
    assert scene.tick(0.1) == {}
    assert scene.want(one) == {OTHER: "the MPS control daemon that shared it is about to end"}
    assert not scene.file(OTHER).exists()
    (scene.root / f"{OTHER}.json").unlink()
    assert scene.tick(AGAIN) == {}
    assert scene.units.starts == 1


def test_users_share_a_server_where_the_program_has_such_and_nobody_is_ended_for_that(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler.control, "has_multi_user", lambda: True)
    scene.manager(UUID)
    scene.tell(scene.offer(multi_user=False))
    asked = [scene.offer(one, multi_user=None) for one in (UUID, OTHER)]
    assert scene.want(*asked).keys() == {OTHER}
    assert [scene.written(one).multi_user for one in (UUID, OTHER)] == [False, True]
    scene.want(scene.offer(replicas=2, multi_user=None), scene.offer(OTHER, multi_user=False))
    assert [scene.written(one).multi_user for one in (UUID, OTHER)] == [True, False]


def test_the_end_concerns_who_runs_and_nobody_before_a_beginning(scene: Scene) -> None:
    scene.manager(UUID)
    scene.another().close()
    assert scene.units.closed == 0
    scene.want(scene.offer())
    scene.reconciler.close()
    assert scene.units.closed == os.getpid()
    scene.manager(UUID, pid=NOBODY)
    scene.reconciler.close()
    assert scene.units.closed == 0


def test_what_has_no_effect_is_asked_for_again_but_not_at_once(scene: Scene) -> None:
    scene.want(scene.offer())
    scene.tick(AGAIN / 2)
    assert scene.units.starts == 1
    scene.tick(AGAIN)
    assert scene.units.starts == 2


def test_a_manager_is_there_for_what_is_left(scene: Scene) -> None:
    """It was killed, and what it had is no longer shared."""
    one = scene.offer()
    scene.manager(UUID, pid=NOBODY)
    scene.tell(one, pid=NOBODY)
    assert scene.want() == {UUID: "the MPS control daemon that shared it is about to end"}
    assert scene.units.starts == 1
    (scene.root / f"{UUID}.json").unlink()
    scene.manager()
    assert scene.tick(AGAIN) == {}
    (scene.settings / "manager.json").unlink()
    assert scene.tick(AGAIN) == {}
    assert scene.units.starts == 1


def test_nothing_happens_before_it_is_known_what_is_wanted(scene: Scene) -> None:
    one = scene.offer()
    scene.want(one)
    scene.manager(UUID)
    scene.tell(one)
    fresh = scene.another()
    fresh.tick()
    assert scene.file().exists()
    fresh.want({UUID: one}, str(scene.root))
    assert (scene.units.starts, fresh.problems()) == (1, {})


def test_a_change_is_written_at_once_and_waits_for_clients(scene: Scene) -> None:
    """The manager applies it: what is advertised meanwhile is what the daemon has."""
    one, other = scene.offer(), scene.offer(replicas=2)
    scene.want(one)
    scene.manager(UUID)
    scene.tell(one, "ready", 1)
    assert scene.tick() == {}
    assert scene.want(other) == {UUID: "its limits change when its last client has ended"}
    assert scene.reconciler.describe()[UUID]["waits_for_clients"] is True
    assert scene.written() == other.settings
    scene.tell(one)
    assert scene.tick(0.5) == {UUID: "its MPS control daemon restarts with other limits"}
    scene.tell(other, daemon=os.getppid())
    scene.tick(0.5)
    assert scene.tick(BLIP) == {}


def test_how_clients_end_is_applied_without_an_end(scene: Scene) -> None:
    """Also where everything else was refused: what is compared is what runs, not what was written."""
    one, other = scene.offer(drain=30), scene.offer(drain=300, on_busy="terminate")
    scene.want(one)
    scene.manager(UUID)
    scene.tell(one, "ready", 1)
    assert scene.want(other) == {}
    assert scene.written() == other.settings


def test_terminate_is_not_forgotten_when_the_settings_are_gone(scene: Scene) -> None:
    one = scene.offer(on_busy="terminate")
    scene.want(one)
    scene.manager(UUID)
    scene.tell(one, "ready", 3)
    for _again in range(2):
        assert scene.want() == {UUID: "the MPS control daemon that shared it is about to end"}
        assert not scene.file().exists()
        scene.tick(AGAIN)


def test_a_change_is_refused_where_that_is_asked_for(scene: Scene) -> None:
    one = scene.offer()
    scene.want(one)
    scene.manager(UUID)
    scene.tell(one, "ready", 3)
    for other, words in (
        (scene.offer(replicas=2), ""),
        (scene.offer(on_busy="refuse"), ""),
        (
            scene.offer(replicas=2, on_busy="refuse"),
            "its 3 clients have ended, and onBusy is refuse",
        ),
        (scene.offer(replicas=2, on_busy="terminate"), ""),
    ):
        found = scene.reconciler.refuses({UUID: other})
        assert found.endswith(words)
        assert bool(found) == bool(words)
    assert scene.reconciler.refuses({}) == ""
    scene.want(scene.offer(on_busy="refuse"))
    assert "it was shared by MPS, and its 3 clients" in scene.reconciler.refuses({})


def test_a_plugin_that_starts_knows_of_the_clients_from_before(scene: Scene) -> None:
    before, now = scene.offer(on_busy="refuse"), scene.offer(replicas=2, on_busy="refuse")
    scene.want(before)
    scene.manager(UUID)
    scene.tell(before, "ready", 3)
    fresh = scene.another()
    assert "its 3 clients have ended, and onBusy is" in fresh.refuses({UUID: now})
    assert "it was shared by MPS, and its 3 clients" in fresh.refuses({})
    assert fresh.refuses({UUID: before}) == ""
    assert fresh.refuses({UUID: scene.offer(replicas=2)}) == ""  # which waits
    fresh.tick()
    assert scene.written() == before.settings
    scene.tell(before)
    assert fresh.refuses({UUID: now}) == ""


def test_a_daemon_that_was_soon_back_was_away(scene: Scene) -> None:
    one = scene.offer()
    scene.want(one)
    scene.manager(UUID)
    scene.tell(one)
    assert scene.tick() == {}
    scene.tell(one, daemon=os.getppid())
    assert scene.tick(0.1) == {UUID: "its MPS control daemon ended and runs again"}
    assert scene.tick(BLIP / 2) == {UUID: "its MPS control daemon ended and runs again"}
    assert scene.tick(BLIP) == {}
    scene.tell(one, daemon=NOBODY)
    assert scene.tick(0.1) == {UUID: "its MPS control daemon ended"}


@pytest.mark.parametrize("more", [{"pid": NOBODY}, {"began": "1"}], ids=["gone", "another"])
def test_a_manager_that_is_soon_back_was_not_missed(scene: Scene, more: dict[str, Any]) -> None:
    """Its daemons and their clients run on; the number of its process may be another's."""
    one = scene.offer()
    scene.want(one)
    scene.manager(UUID)
    scene.tell(one)
    assert scene.tick(0.1) == {}
    scene.tell(one, **more)
    assert scene.tick(0.1) == {}
    assert scene.tick(ADOPTION - 0.1) == {}
    assert scene.tick(0.2) == {UUID: KILLED}
    scene.tell(one)
    assert scene.tick(0.1) == {}
    scene.tell(one, **more, daemon=NOBODY)
    assert scene.tick(0.1) == {UUID: KILLED}  # nobody serves


def test_another_root_is_another_daemon(scene: Scene) -> None:
    one = scene.offer()
    scene.want(one)
    scene.manager(UUID)
    scene.tell(one, "ready", 1)
    assert scene.tick() == {}
    new = str(scene.folder / "new")
    moved = offer(UUID, new)
    scene.reconciler.want({UUID: moved}, new)
    assert scene.written() == moved.settings
    assert scene.reconciler.problems() == {UUID: "its limits change when its last client has ended"}


@pytest.mark.parametrize("text", ["", "{", '{"version": 2}', "GPU_MPS_REPLICAS=4"])
def test_settings_that_can_not_be_read_are_written_anew(scene: Scene, text: str) -> None:
    one = scene.offer()
    scene.settings.mkdir()
    scene.file().write_text(text)
    scene.manager(UUID)
    scene.tell(one, "ready", 1)
    assert scene.want(one) == {}
    assert scene.written() == one.settings
    scene.file().write_text(text)
    scene.want()
    assert not scene.file().exists()


def test_a_device_that_became_another_one_is_looked_at_again(scene: Scene) -> None:
    """With less memory, as after a change of ECC: the same settings are other limits."""
    one = scene.offer()
    scene.want(one)
    scene.manager(UUID)
    scene.tell(one)
    assert scene.tick() == {}
    told = state(one)["limits"]
    scene.tell(one, limits={**told, "default": {"memory_mib": 7, "threads": 25.0}})
    before = scene.file().stat().st_ino
    assert scene.tick(AGAIN) == {UUID: "its MPS control daemon restarts with other limits"}
    assert scene.file().stat().st_ino != before


def test_full_disk_is_said_once_and_tried_again(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.settings.write_text("in the way")
    assert scene.want(scene.offer())
    scene.tick(AGAIN)
    assert (
        capsys.readouterr().err.count("the settings of an MPS control daemon can't be written") == 1
    )
    scene.settings.unlink()
    scene.tick()
    assert scene.written() == scene.offer().settings


def test_a_look_at_many_devices_asks_for_each_only_what_is_its_own(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settings, its state and its daemon's process: twice a second, for 56 MIG devices."""
    offers = [scene.offer(f"MIG-0000000{number}-0000-0000-0000-000000000000") for number in "1234"]
    began, judge, stat = started(os.getpid()), reconciler.judge, Path.stat
    stats, processes, judged = list[Any](), list[Any](), list[Any]()
    monkeypatch.setattr(Path, "stat", lambda path, **how: stats.append(path) or stat(path, **how))
    for module in (tools_files, state_module):
        monkeypatch.setattr(module, "started", lambda pid: processes.append(pid) or began)
    monkeypatch.setattr(reconciler, "judge", lambda *args: judged.append(args) or judge(*args))

    def cost(*devices: Offer) -> list[int]:
        scene.manager(*(one.names.device for one in devices))
        for number, one in enumerate(devices):
            scene.tell(one, daemon=1000 + number)
        assert scene.want(*devices) == {}
        scene.tick(BLIP)
        asked = (stats, processes, judged)
        before = [len(one) for one in asked]
        assert scene.tick(BLIP) == {}
        return [len(one) - were for one, were in zip(asked, before, strict=True)]

    one, four = cost(*offers[:1]), cost(*offers)
    assert [(b - a) / 3 for a, b in zip(one, four, strict=True)] == [2, 1, 0]
