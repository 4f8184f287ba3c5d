# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's condition GPUHealthy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.health.condition import HEARTBEAT
from gpu_plugin.labels.health.reporter import GRACE, Reporter

from tests.fakes.kubernetes.standin_api import NODE, Api

UNFIT = {"gpu": "GPU-0", "index": "0", "gi": None, "ci": None, "reason": "XID 79", "way_back": ""}
WELL = {"state": "serving", "health": []}
SICK = {"state": "serving", "health": [UNFIT]}
State = dict[str, Any] | None


class Scene:
    """A reporter whose clock goes on when it is told to."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api, self.path = api, folder / "node-health.json"
        self.now = 2_000_000_000.0
        self.problems: dict[str, str] = {}
        self.restart()

    def restart(self) -> None:
        access = Access(str(self.api.kubeconfig))
        self.reporter = Reporter(NODE, self.path, lambda: access, lambda: self.now)

    def see(self, state: State, seconds: int = 1, *, condition: bool = True) -> None:
        for _each in range(seconds):
            self.now += 1
            self.problems = self.reporter.keep(state, events_wanted=False, condition=condition)

    def found(self) -> dict[str, str]:
        found: dict[str, str] = self.api.conditions().get("GPUHealthy", {})
        return found


@pytest.fixture
def scene(api: Api, tmp_path: Path) -> Scene:
    return Scene(api, tmp_path)


def test_the_condition_says_how_the_gpus_are(scene: Scene) -> None:
    scene.see(WELL)
    first = scene.found()
    assert (first["status"], first["reason"]) == ("True", "GPUsHealthy")
    scene.see(SICK, 20)
    assert (scene.found()["status"], scene.found()["reason"]) == ("False", "GPUsUnhealthy")
    assert scene.found()["message"] == "GPU 0 (GPU-0): XID 79"
    assert scene.found()["lastTransitionTime"] > first["lastTransitionTime"]
    assert scene.api.conditions()["Ready"] == {"type": "Ready", "status": "True"}


def test_at_rest_there_is_a_heartbeat_and_nothing_else(scene: Scene) -> None:
    scene.see(WELL, 3600)
    assert 10 <= len(scene.api.requests) <= 3600 / HEARTBEAT + 1
    assert scene.found()["lastTransitionTime"] < scene.found()["lastHeartbeatTime"]


def test_a_restart_writes_nothing_again(scene: Scene) -> None:
    scene.see(WELL)
    before = scene.found()
    scene.restart()
    scene.see(WELL, 100)
    assert len(scene.api.requests) == 1
    scene.see(WELL, 400)
    assert scene.found()["lastTransitionTime"] == before["lastTransitionTime"]


def test_a_gpu_that_goes_up_and_down_is_written_seldom(scene: Scene) -> None:
    for _each in range(100):
        scene.see(SICK)
        scene.see(WELL)
    assert len(scene.api.requests) <= 21


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (None, "PluginNotRunning"),
        ({"state": "waiting_for_driver", "problem": "no driver"}, "DriverNotThere"),
        ({"state": "serving"}, "NotReported"),
    ],
)
def test_what_is_not_known_is_said_to_be_unknown(scene: Scene, state: State, reason: str) -> None:
    scene.see(state, int(GRACE) + 2)
    assert (scene.found()["status"], scene.found()["reason"]) == ("Unknown", reason)


def test_a_plugin_that_starts_again_is_waited_for(scene: Scene) -> None:
    scene.see(WELL)
    scene.see(None, int(GRACE) - 2)
    scene.see(WELL, 10)
    assert len(scene.api.requests) == 1


def test_a_condition_that_somebody_took_away_comes_back(scene: Scene) -> None:
    scene.see(WELL)
    scene.api.merge({"status": {"conditions": []}})
    scene.see(WELL, int(HEARTBEAT * 1.2))
    assert set(scene.found()) == {
        *("type", "status", "reason", "message", "lastHeartbeatTime", "lastTransitionTime")
    }


def test_it_goes_where_it_is_not_wanted_any_more(scene: Scene) -> None:
    scene.see(WELL, condition=False)
    assert scene.api.requests == []
    scene.see(WELL)
    scene.restart()
    scene.see(WELL, 5, condition=False)
    assert scene.found() == {}
    assert len(scene.api.requests) == 2
    assert "Ready" in scene.api.conditions()


def test_a_refusal_names_the_right_that_is_missing(scene: Scene) -> None:
    scene.api.allows = lambda _verb, resource: resource != "nodes/status"
    scene.see(WELL, 3600)
    assert "right to patch this node's status" in scene.problems["condition"]
    assert len(scene.api.requests) < 40


def test_many_faults_are_named_up_to_a_few(scene: Scene) -> None:
    many = [{**UNFIT, "gpu": f"GPU-{index}", "index": str(index)} for index in range(30)]
    scene.see({"state": "serving", "health": many})
    assert scene.found()["message"].endswith("; and 22 more")
