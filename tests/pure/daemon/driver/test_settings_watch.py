# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the device plugin tells of settings that are not as declared, and when it looks."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._base.gpu import GPU_IS_LOST, Gpu, NvmlError, SettingsTold
from gpu_plugin._shared._settings import boot as settings_boot
from gpu_plugin.driver.asking import PAUSE, Asking, SettingsWatch

from tests.fakes.clock import Clock
from tests.fakes.daemon.gpu_builders import gpu

TOLD = SettingsTold(
    present={"power_limit": 700_000, "persistence": True},
    power=(200_000, 700_000),
    power_default=700_000,
)


class AtOnce(Asking):
    """Asks for one after the other, but for those that are late."""

    late: frozenset[int] = frozenset()

    def slow(self) -> frozenset[int]:
        return self.late

    def each(
        self, what: str, keys: Iterable[int], ask: Callable[[int], Any], known: Container[int]
    ) -> dict[int, Any]:
        return {at: ask(at) for at in keys}


class Scene:
    """Two GPUs, and what each tells, or the error that it gives."""

    def __init__(self, root: Path) -> None:
        self.clock = Clock()
        self.watch = SettingsWatch(root, self.clock.time)
        self.gpus = [gpu(0), gpu(1)]
        self.told: dict[int, SettingsTold | NvmlError] = {0: TOLD, 1: TOLD}
        self.asked: list[int] = []
        self.asking = AtOnce()
        self.config = root / settings_boot.CONFIG.lstrip("/")
        self.config.parent.mkdir(parents=True)

    def declare(self, *rules: dict[str, Any]) -> None:
        self.config.write_text(settings_boot.dump(rules))

    def ask(self, one: Gpu) -> SettingsTold:
        self.asked.append(one.index)
        told = self.told[one.index]
        if isinstance(told, NvmlError):
            raise told
        return told

    def look(self) -> list[tuple[str, str, bool]]:
        self.watch.refresh(self.gpus, self.ask, self.asking)
        return [(one.index, one.setting, one.drifted) for one in self.watch.compared]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_what_is_declared_is_told_and_whether_it_has_drifted(scene: Scene) -> None:
    scene.declare({"match": {"index": 1}, "power_limit": 560, "persistence": True})
    assert scene.look() == [("1", "persistence", False), ("1", "power_limit", True)]
    last = scene.watch.compared[1]
    assert (last.uuid, last.present, last.declared) == (scene.gpus[1].uuid, "700 W", "560 W")
    assert last.describe()["now"] == "700 W"


def test_nothing_is_asked_where_nothing_is_declared(scene: Scene) -> None:
    assert (scene.look(), scene.asked) == ([], [])


def test_it_looks_now_and_then_and_at_once_where_something_else_is_declared(scene: Scene) -> None:
    scene.declare({"power_limit": 560})
    scene.look()
    scene.told[0] = TOLD._replace(present={"power_limit": 560_000})
    assert scene.look()[0] == ("0", "power_limit", True)
    scene.clock.now += PAUSE
    assert scene.look()[0] == ("0", "power_limit", False)
    scene.declare({"power_limit": 560, "match": {"index": 1}})
    assert scene.look() == [("1", "power_limit", True)]
    scene.config.unlink()
    assert scene.look() == []


def test_a_gpu_that_is_lost_keeps_no_other_from_being_compared_and_is_asked_again(
    scene: Scene,
) -> None:
    scene.declare({"power_limit": 560})
    scene.told[0] = NvmlError(GPU_IS_LOST, "reading")
    with pytest.raises(NvmlError):
        scene.look()
    assert [one.index for one in scene.watch.compared] == ["1"]
    scene.told[0] = TOLD
    assert [one[0] for one in scene.look()] == ["0", "1"]


def test_a_gpu_that_is_late_stays_as_it_was_known(scene: Scene) -> None:
    scene.declare({"power_limit": 560})
    scene.look()
    scene.asking.late = frozenset({0})
    scene.asked.clear()
    scene.clock.now += PAUSE
    assert (scene.look(), scene.asked) == (
        [("0", "power_limit", True), ("1", "power_limit", True)],
        [1],
    )


def test_rules_that_can_not_be_read_are_told_until_they_can(scene: Scene) -> None:
    scene.config.write_text("{")
    for _look in range(2):
        with pytest.raises(NodeError, match="is damaged"):
            scene.look()


def test_what_a_board_does_not_allow_is_told(scene: Scene) -> None:
    scene.declare({"match": {"index": 0}, "power_limit": 900}, {"persistence": True})
    with pytest.raises(NodeError, match=r"900 is not valid"):
        scene.look()
    assert [(one.index, one.setting) for one in scene.watch.compared] == [("1", "persistence")]
