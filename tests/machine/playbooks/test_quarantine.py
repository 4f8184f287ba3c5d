# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Setting nodes aside and giving them back: in which order, what is refused, and how a run that was cut off ends."""

from __future__ import annotations

import json

import pytest

from tests.machine.playbooks.conftest import MakeScene
from tests.machine.playbooks.scene import Scene

NODE = {"quarantine_node": True, "quarantine_reason": "XID 79", "quarantine_ticket": "OPS-1"}
CLUSTER = {"gpu_nodes_kubeconfig": "admin.conf"}
SET_ASIDE = ["quarantine present", "drain cordoned quarantine"]
GIVEN_BACK = ["quarantine absent", "drain uncordoned quarantine"]


def test_a_gpu_is_set_aside_and_released_and_its_node_left_as_it_is(one: Scene) -> None:
    one.write(
        gpu_nodes_hooks_before=[one.hook("before")], gpu_nodes_hooks_after=[one.hook("after")]
    )
    asked = {"quarantine_gpus": ["0"], "quarantine_reason": "XID 79"}
    for playbook, log in (("quarantine", SET_ASIDE[:1]), ("release", GIVEN_BACK[:1])):
        one.become("n1", log=[])
        run = one.play(playbook, **asked, **CLUSTER)
        assert run.status == 0, run.text
        assert one.log("n1") == log
    assert one.hooks("n1") == []


def test_a_gpu_is_set_as_declared_before_it_is_released(one: Scene) -> None:
    one.write(settings_rules=[{"power_limit": 550}])
    run = one.play("release", quarantine_gpus=["GPU-a"])
    assert run.status == 0, run.text
    assert one.log("n1") == ["quarantine absent check", "settings present", "quarantine absent"]
    assert one.node("n1")["released_when_set"] == ["GPU-a"]


def test_a_gpu_that_can_not_be_set_as_declared_is_not_released(one: Scene) -> None:
    one.write(settings_rules=[{"power_limit": 550}])
    one.become("n1", fenced=["GPU-a"], fails={"settings present": "power_limit can't be set"})
    run = one.play("release", quarantine_gpus=["GPU-a"])
    assert run.status == 2
    assert "power_limit can't be set" in run.text
    assert one.node("n1")["fenced"] == ["GPU-a"]


def test_without_a_driver_a_gpu_is_released_unset(one: Scene) -> None:
    one.write(settings_rules=[{"power_limit": 550}])
    (one.folder / "n1/driver").unlink()
    run = one.play("release", quarantine_gpus=["GPU-a"])
    assert run.status == 0, run.text
    assert one.log("n1") == ["quarantine absent check", "quarantine absent"]


def test_a_node_is_fenced_first_and_given_back_last(one: Scene) -> None:
    one.write(
        gpu_nodes_hooks_before=[one.hook("before")], gpu_nodes_hooks_after=[one.hook("after")]
    )
    run = one.play("quarantine", **NODE, **CLUSTER)
    assert run.status == 0, run.text
    assert one.log("n1") == SET_ASIDE
    assert one.node("n1")["reason"] == "XID 79 (ticket OPS-1)"
    assert one.hooks("n1") == ["before"]
    one.become("n1", log=[])
    run = one.play("release", quarantine_node=True, **CLUSTER)
    assert run.status == 0, run.text
    assert one.log("n1") == GIVEN_BACK
    assert one.hooks("n1") == ["before", "after"]


def test_check_mode_runs_no_hook(one: Scene) -> None:
    one.write(
        gpu_nodes_hooks_before=[one.hook("before")], gpu_nodes_hooks_after=[one.hook("after")]
    )
    for playbook in ("quarantine", "release"):
        run = one.play(playbook, options=["--check"], **NODE, **CLUSTER)
        assert run.status == 0, run.text
    assert one.hooks("n1") == []


@pytest.mark.parametrize("task", ["Cordon the node for as long as it is in quarantine"])
def test_a_run_that_was_cut_off_is_finished_by_the_next(one: Scene, task: str) -> None:
    assert one.play("quarantine", cut_off_at=task, **NODE, **CLUSTER).status != 0
    assert one.log("n1") == SET_ASIDE[:1]
    assert one.play("quarantine", **NODE, **CLUSTER).status == 0
    assert one.log("n1") == [*SET_ASIDE[:1], *SET_ASIDE]


def test_a_cluster_that_is_away_keeps_no_gpu_from_being_set_aside(one: Scene) -> None:
    one.become("n1", fails={"drain cordoned quarantine": "the API server is away"})
    run = one.play("quarantine", **NODE, **CLUSTER)
    assert run.status == 2
    assert "the API server is away" in run.text
    assert one.log("n1") == SET_ASIDE


@pytest.mark.parametrize(("failed", "words"), [("", "not ended"), ("no driver", "failed")])
def test_a_node_in_the_middle_of_a_change_is_not_given_back(
    one: Scene, failed: str, words: str
) -> None:
    one.marker("n1").write_text(json.dumps({"change": "reboot", "failed": failed}))
    run = one.play("release", **NODE, **CLUSTER)
    assert run.status == 2
    assert f"the change reboot of the node has {words}, and would be cut off" in run.text
    assert "run gpu.node.reboot to its end, and this again" in run.text
    assert one.log("n1") == []


def test_a_fleet_is_only_meant_where_it_is_named(scene: MakeScene) -> None:
    nodes = scene("n1", "n2")
    for playbook, verb in (("quarantine", "set aside"), ("release", "release")):
        run = nodes.play(playbook, **NODE)
        assert run.status == 2
        assert (
            f"this would {verb} on all 2 nodes. Next step: name the nodes with --limit" in run.text
        )
    assert nodes.log("n1") == nodes.log("n2") == []
    run = nodes.play("quarantine", options=["--limit", "n2"], **NODE)
    assert run.status == 0, run.text
    assert (nodes.log("n1"), nodes.log("n2")) == ([], SET_ASIDE[:1])
    assert nodes.play("quarantine", options=["--limit", "all"], **NODE).status == 0
    assert nodes.log("n1") == SET_ASIDE[:1]


def test_a_variable_that_nobody_knows_is_refused_before_anything_is_touched(one: Scene) -> None:
    run = one.play("quarantine", quarantine_gpu=["0"], quarantine_reason="XID 79")
    assert run.status == 2
    assert "quarantine_gpu is unknown (did you mean quarantine_gpus?)" in run.text
    assert one.log("n1") == []
