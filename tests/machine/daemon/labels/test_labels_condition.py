# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's conditions GPUHealthy and gpu.node/Accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._node.gate import NOT_CHECKED, Gate, Held, Override
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.health.condition import ACCEPTED, HEARTBEAT, accepted
from gpu_plugin.labels.health.reporter import GRACE, Reporter

from tests.fakes.kubernetes.standin_api import NODE, Api

UNFIT = {"gpu": "GPU-0", "index": "0", "gi": None, "ci": None, "reason": "XID 79", "way_back": ""}
WELL = {"state": "serving", "health": []}
SICK = {"state": "serving", "health": [UNFIT]}
BOOT = "boot-1"
OPEN = Gate(BOOT, open_gpus=("GPU-0", "GPU-1"))
UNTESTED = Held("not accepted: it was never tested")
CLOSED = Gate(BOOT, gpus={"GPU-0": UNTESTED, "GPU-1": UNTESTED})
PARTLY = Gate(
    BOOT, gpus={"GPU-1": Held("not accepted: memory: 32 wrong words")}, open_gpus=("GPU-0",)
)
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

    def see(
        self,
        state: State,
        seconds: int = 1,
        *,
        condition: bool = True,
        gate: Gate | None = None,
    ) -> None:
        for _each in range(seconds):
            self.now += 1
            self.problems = self.reporter.keep(
                state,
                events_wanted=False,
                condition=condition,
                accepted=accepted(gate, BOOT),
            )

    def found(self, kind: str = "GPUHealthy") -> dict[str, str]:
        found: dict[str, str] = self.api.conditions().get(kind, {})
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
    assert "right to patch this node's status" in scene.problems["GPUHealthy"]
    assert len(scene.api.requests) < 40


def test_many_faults_are_named_up_to_a_few(scene: Scene) -> None:
    many = [{**UNFIT, "gpu": f"GPU-{index}", "index": str(index)} for index in range(30)]
    scene.see({"state": "serving", "health": many})
    assert scene.found()["message"].endswith("; and 22 more")


@pytest.mark.parametrize(
    ("gate", "status", "reason", "message"),
    [
        (OPEN, "True", "Accepted", "all GPUs are accepted"),
        (
            PARTLY,
            "True",
            "SomeAccepted",
            "1 GPUs are accepted; held: GPU GPU-1: not accepted: memory: 32 wrong words",
        ),
        (
            CLOSED,
            "False",
            "NotAccepted",
            f"GPU GPU-0: {UNTESTED.reason}; GPU GPU-1: {UNTESTED.reason}",
        ),
        (
            OPEN._replace(node=Held("1 of 2 GPUs are not accepted: GPU GPU-1: slow")),
            "False",
            "NotAccepted",
            "1 of 2 GPUs are not accepted: GPU GPU-1: slow",
        ),
        (Gate(BOOT), "False", "NotAccepted", "no GPU of the node is accepted"),
        (OPEN._replace(boot="boot-0"), "Unknown", "NotChecked", NOT_CHECKED),
        (
            OPEN._replace(override=Override("burn-in of rack 7", 1.0, ("GPU-1",))),
            "True",
            "AcceptedByOperator",
            "1 GPUs are let in by an operator: burn-in of rack 7",
        ),
        (
            PARTLY._replace(override=Override("burn-in of rack 7", 1.0, ("GPU-0",))),
            "True",
            "AcceptedByOperator",
            "1 GPUs are let in by an operator: burn-in of rack 7; "
            "held: GPU GPU-1: not accepted: memory: 32 wrong words",
        ),
    ],
)
def test_gate_is_a_condition_of_the_node(
    scene: Scene, gate: Gate, status: str, reason: str, message: str
) -> None:
    scene.see(WELL, condition=False, gate=gate)
    condition = scene.found(ACCEPTED)
    assert (condition["status"], condition["reason"]) == (status, reason)
    assert condition["message"] == message
    assert scene.found() == {}


def test_both_conditions_are_kept_beside_each_other(scene: Scene) -> None:
    scene.see(WELL, gate=CLOSED)
    before = scene.found()
    scene.see(WELL, 20, gate=OPEN)
    assert scene.found() == before
    assert scene.found(ACCEPTED)["status"] == "True"
    assert len(scene.api.requests) == 3
    scene.restart()
    scene.see(WELL, 3600, gate=OPEN)
    assert len(scene.api.requests) <= 3 + 2 * (3600 / HEARTBEAT + 1)
    assert scene.found(ACCEPTED)["lastHeartbeatTime"] > scene.found(ACCEPTED)["lastTransitionTime"]


def test_condition_of_the_gate_goes_with_the_gate_and_with_the_labels(scene: Scene) -> None:
    scene.see(WELL, gate=CLOSED)
    scene.restart()
    scene.see(WELL)
    assert set(scene.api.conditions()) == {"Ready", "GPUHealthy"}
    scene.see(WELL, 20, gate=CLOSED)
    scene.restart()
    scene.reporter.remove()
    assert set(scene.api.conditions()) == {"Ready"}


def test_gate_is_reported_while_the_device_plugin_starts(scene: Scene) -> None:
    scene.see(None, gate=CLOSED)
    assert scene.found() == {}
    assert scene.found(ACCEPTED)["status"] == "False"


def test_refusal_of_one_condition_names_the_right(scene: Scene) -> None:
    scene.api.allows = lambda _verb, resource: resource != "nodes/status"
    scene.see(WELL, condition=False, gate=CLOSED)
    assert "right to patch this node's status" in scene.problems[ACCEPTED]
    assert "--node-condition" not in scene.problems[ACCEPTED]
    scene.api.allows = lambda _verb, _resource: True
    scene.see(WELL, 20, condition=False, gate=CLOSED)
    assert scene.problems == {}
    assert scene.found(ACCEPTED)["status"] == "False"


def test_condition_of_a_node_that_joins_is_not_waited_for(scene: Scene) -> None:
    scene.api.allows = lambda _verb, _resource: False
    scene.see(WELL, 3600, condition=False, gate=OPEN)
    scene.api.allows = lambda _verb, _resource: True
    scene.reporter.retry()
    scene.see(WELL, condition=False, gate=OPEN)
    assert scene.found(ACCEPTED)["status"] == "True"


def test_condition_that_an_earlier_version_wrote_is_known(scene: Scene) -> None:
    scene.see(WELL)
    memory = json.loads(scene.path.read_text())
    memory["condition"] = memory.pop("conditions")["GPUHealthy"]
    scene.path.write_text(json.dumps(memory))
    scene.restart()
    scene.see(WELL, condition=False)
    assert scene.found() == {}


def test_many_held_gpus_are_named_up_to_a_few(scene: Scene) -> None:
    gate = Gate(BOOT, gpus={f"GPU-{index:02}": UNTESTED for index in range(30)})
    scene.see(WELL, gate=gate)
    assert scene.found(ACCEPTED)["message"].endswith("; and 22 more")
