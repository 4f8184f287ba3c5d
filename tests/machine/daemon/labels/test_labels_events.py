# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Events of the node where a GPU's health changes, and what they are made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.health.events import COMPONENT, KEPT, PAUSE
from gpu_plugin.labels.health.faults import faults
from gpu_plugin.labels.health.reporter import BURST, EACH, Reporter

from tests.fakes.kubernetes.standin_api import EVENTS, NODE, Api

RESET = "a reset of the GPU or another load of the driver"
Json = dict[str, Any]


def unfit(index: int = 0, reason: str = "XID 79", **more: Any) -> Json:
    """An entry as the plugin's status file has it."""
    where = {"gpu": f"GPU-{index}", "index": str(index), "gi": None, "ci": None}
    why = {"kind": "fault", "reason": reason, "since": 1_000_000_000, "way_back": RESET}
    return {**where, **why, **more}


class Scene:
    """A reporter whose clock goes on when it is told to."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api, self.path = api, folder / "node-health.json"
        self.now = 2_000_000_000.0
        self.health: list[Json] = []
        self.problems: dict[str, str] = {}
        self.restart()

    def restart(self) -> None:
        access = Access(str(self.api.kubeconfig))
        self.reporter = Reporter(NODE, self.path, lambda: access, lambda: self.now)

    def tell(self, *health: Json, rounds: int = 3, seconds: float = 1) -> None:
        for _each in range(rounds):
            self.now += seconds
            state = {"state": "serving", "health": list(health)}
            self.problems = self.reporter.keep(state, events_wanted=True, condition=False)

    def said(self) -> list[tuple[str, str, int]]:
        return [(one["type"], one["message"], one["count"]) for one in self.api.events]


@pytest.fixture
def scene(api: Api, tmp_path: Path) -> Scene:
    return Scene(api, tmp_path)


def test_a_gpu_that_turns_sick_and_well_is_an_event_each(scene: Scene) -> None:
    scene.tell()
    assert scene.api.requests == []
    scene.tell(unfit())
    (one,) = scene.api.events
    assert one["message"] == f"GPU 0 (GPU-0): XID 79. Way back: {RESET}"
    assert (one["type"], one["reason"], one["count"]) == ("Warning", "GPUUnhealthy", 1)
    assert one["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": NODE,
        "uid": NODE,
    }
    assert one["source"] == {"component": COMPONENT, "host": NODE}
    assert one["metadata"]["namespace"] == "default"
    assert one["firstTimestamp"] == one["lastTimestamp"] == "2033-05-18T03:33:24Z"
    scene.tell(unfit(), rounds=200)
    assert len(scene.api.requests) == 1  # only changes are told
    scene.tell()
    assert scene.said()[1] == ("Normal", "GPU 0 (GPU-0) is healthy again", 1)


def test_a_restart_tells_nothing_twice(scene: Scene) -> None:
    scene.tell(unfit())
    scene.restart()
    scene.tell(unfit(), rounds=100)
    assert len(scene.api.requests) == 1
    scene.restart()
    scene.tell(rounds=40)
    assert [one["reason"] for one in scene.api.events] == ["GPUUnhealthy", "GPUHealthy"]


def test_what_happens_again_is_counted(scene: Scene) -> None:
    for _each in range(3):
        scene.tell(unfit(), rounds=40)
        scene.tell(rounds=40)
    assert [count for _type, _message, count in scene.said()] == [3, 3]
    first, last = (scene.api.events[0][f"{one}Timestamp"] for one in ("first", "last"))
    assert first < last


def test_an_event_that_ran_out_is_made_anew(scene: Scene) -> None:
    scene.tell(unfit(), rounds=40)
    scene.tell(rounds=40)
    for path in [one for one in scene.api.objects if one.startswith(EVENTS)]:
        del scene.api.objects[path]
    scene.tell(unfit(), rounds=40)
    assert [count for _type, _message, count in scene.said()] == [1]
    scene.now += KEPT
    scene.tell(rounds=40)
    assert [one["reason"] for one in scene.api.events] == ["GPUUnhealthy", "GPUHealthy"]


def test_a_gpu_that_goes_up_and_down_is_told_seldom(scene: Scene) -> None:
    for _each in range(300):
        scene.tell(unfit(), rounds=1)
        scene.tell(rounds=1)
    assert len(scene.api.requests) <= 600 / PAUSE + 2


def test_many_devices_at_once_are_told_one_after_the_other(scene: Scene) -> None:
    many = [unfit(gpu, gi=gi, ci=0) for gpu in range(8) for gi in range(7)]
    scene.tell(*many, rounds=40)
    assert BURST <= len(scene.api.requests) <= BURST + 40 / EACH + 1
    scene.tell(*many, rounds=400)
    assert len(scene.api.events) == 56
    assert "MIG instance 6/0 of GPU 7 (GPU-7)" in scene.api.events[-1]["message"]


def test_a_reason_that_changes_is_told(scene: Scene) -> None:
    scene.tell(unfit(reason="XID 79"), rounds=40)
    scene.tell(unfit(reason="XID 48"), rounds=40)
    ((_type, message, count),) = scene.said()
    assert ("XID 48" in message, count) == (True, 2)


@pytest.mark.parametrize("status", [401, 403, 409, 422, 429, 500, 0])
def test_an_event_that_is_refused_is_tried_again_later(scene: Scene, status: int) -> None:
    scene.api.faults.append(("POST", status))
    scene.tell(unfit(), rounds=1)
    assert f"writing an Event of node {NODE}" in scene.problems["events"]
    assert ("right to create and patch events" in scene.problems["events"]) == (
        status in (401, 403)
    )
    scene.tell(unfit(), rounds=1)
    assert len(scene.api.requests) == 1  # there is a pause
    scene.tell(unfit(), rounds=30)
    assert (len(scene.api.events), scene.problems) == (1, {})


def test_a_refusal_that_lasts_is_asked_for_seldom(scene: Scene) -> None:
    scene.api.allows = lambda verb, _resource: verb != "create"
    scene.tell(unfit(), rounds=3600)
    assert len(scene.api.requests) < 40


def test_a_plugin_that_does_not_run_or_says_nothing_changes_nothing(scene: Scene) -> None:
    scene.tell(unfit())
    for state in (None, {}, {"health": None}, {"health": {}}, {"health": "x"}):
        for _each in range(40):
            scene.now += 1
            scene.reporter.keep(state, events_wanted=True, condition=False)
    assert len(scene.api.requests) == 1


ODD = [3, None, "x", [], {}, {"gpu": 3}, {"gpu": None, "reason": "x"}]


def test_entries_of_another_shape_are_left_out(scene: Scene) -> None:
    bare = {"gpu": "GPU-9"}
    scene.tell(*ODD, bare, {"gpu": "GPU-8", "gi": "x", "reason": {"a": 1}, "index": 4.5})
    assert {message for _type, message, _count in scene.said()} == {
        "GPU GPU-9: it is unfit",
        "MIG instance x/ of GPU 4.5 (GPU-8): {'a': 1}",
    }


def test_two_reasons_of_one_device_are_one_event() -> None:
    found = faults({"health": [unfit(kind="fault"), unfit(kind="slow", reason="NVML is slow")]})
    assert found is not None
    one = next(iter(found.values()))
    assert len(found) == 1
    assert ("XID 79" in one.text, "NVML is slow" in one.text) == (True, True)


def test_a_message_is_never_too_long_for_kubernetes(scene: Scene) -> None:
    scene.tell(unfit(reason="\u00e9" * 5000, gpu="GPU-" + "x" * 5000))
    (one,) = scene.api.events
    assert len(one["message"].encode()) <= 1024


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version": 9, "node": "node-1", "told": {}}',
        '{"version": 1, "node": "node-1", "told": {"GPU-0": 3}, "condition": 4}',
        '{"version": 1, "node": "node-1", "told": {"GPU-0": {"text": 1}}, "condition": {"at": "x"}}',
        '{"version": 1, "node": "node-1", "told": {"GPU-0": {"text": "", "device": "", "at": 1,'
        ' "events": {"GPUUnhealthy": {"name": 3}}}}}',
    ],
)
def test_a_memory_that_is_damaged_is_begun_again(scene: Scene, text: str) -> None:
    scene.path.write_text(text)
    scene.restart()
    scene.tell(unfit())
    assert len(scene.api.events) == 1


def test_another_nodes_memory_is_not_ours(scene: Scene) -> None:
    scene.tell(unfit())
    found = json.loads(scene.path.read_text())
    scene.path.write_text(json.dumps({**found, "node": "node-2"}))
    scene.restart()
    scene.tell(unfit())
    assert len(scene.api.events) == 2


def test_a_clock_that_goes_back_stops_nothing(scene: Scene) -> None:
    scene.tell(unfit())
    scene.now -= 100_000
    scene.tell(rounds=3)
    assert scene.said()[-1][0] == "Normal"


def test_a_memory_that_cannot_be_kept_does_not_stop_telling(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_arguments: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpu_plugin.tools.files.replace", full)
    scene.tell(unfit(), rounds=40)
    assert len(scene.api.events) == 1
    assert "can't be kept" in capsys.readouterr().err
