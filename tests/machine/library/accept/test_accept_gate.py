# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node with a gate: no GPU is let in before it has passed, whatever comes between."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.record import PATH
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._node.gate import CONFIG
from ansible_collections.gpu.node.plugins.module_utils._node.gate import PATH as GATE

from tests.machine.library.accept.scene import AcceptScene
from tests.machine.library.repair.reset.scene import BOOT_ID, PLUGIN, SERVED, uuids

HOLD = {"gate": True, "test": "never", "fail": False}
ON = {"gate": True}
NEVER = "not accepted: it was never tested"


@pytest.fixture(autouse=True)
def program(node: AcceptScene) -> None:
    node.change(files={PROGRAM: ""})


def reboot(node: AcceptScene) -> None:
    node.change(files={**node["files"], BOOT_ID: "boot-2\n"})


def test_gpus_are_held_until_they_have_passed(node: AcceptScene) -> None:
    held = node.run(**HOLD)
    assert sorted(held["gate"]["held"]) == sorted(
        f"GPU {uuid}: {NEVER}" for uuid in uuids(node, 0, 1)
    )
    assert held["gate"]["holds_node"]
    assert not node.run(**HOLD)["changed"]
    answer = node.run(**ON)
    assert answer["gate"] == {
        "on": True,
        "open": True,
        "holds_node": False,
        "held": [],
        "override": "",
    }
    assert set(node.gate["open_gpus"]) == set(uuids(node, 0, 1))
    assert not node.run(**ON)["changed"]


def test_node_without_a_driver_is_held_before_its_program_is_there(node: AcceptScene) -> None:
    node.change(files={})
    node.sim.ctl("unload")
    held = node.run(**HOLD)
    assert "its GPUs can't be read" in held["gate"]["held"][0]
    assert [step["action"] for step in held["steps"]] == ["boot_config", "gate"]
    assert CONFIG in node["files"]
    assert not node.run(**HOLD)["changed"]


@pytest.mark.parametrize("scope", ["gpu", "node"])
def test_gpu_that_fails_is_held_alone_or_with_its_node(node: AcceptScene, scope: str) -> None:
    node.fault, node.bad_gpu = "cell", uuids(node, 1)[0]
    answer = node.run(**ON, scope=scope, fail=False)
    assert list(node.gate["gpus"]) == uuids(node, 1)
    assert "memory: " in answer["gate"]["held"][-1]
    assert answer["gate"]["holds_node"] == (scope == "node")
    node.fault = ""
    assert node.run(**ON, scope=scope)["gate"]["open"]


def test_gate_is_closed_by_the_test_itself_and_after_a_kill(node: AcceptScene) -> None:
    node.change(**{**SERVED, "files": {**SERVED["files"], PROGRAM: ""}})
    assert node.run(**ON)["gate"]["open"]
    node.killed(PATH, test="always")
    assert set(node.gate["gpus"]) == set(uuids(node, 0, 1))
    assert node.run()["gate"]["open"]  # which a later run finds switched on
    assert node["services"][PLUGIN]


@pytest.mark.parametrize("path", [CONFIG, GATE, PATH])
def test_kill_at_each_file_opens_nothing(node: AcceptScene, path: str) -> None:
    node.killed(path, **ON)
    if GATE in node["files"]:
        assert not node.gate["open_gpus"]
    assert node.run(**ON)["gate"]["open"]


def test_gate_that_is_switched_on_while_a_gpu_is_in_use_counts_from_the_next_boot(
    node: AcceptScene,
) -> None:
    holder = node.sim.hold(1)
    answer = node.run(**HOLD)
    assert answer["gate"]["open"]
    assert node.gate["exempt_boot"] == "boot-1"
    holder.kill()
    holder.wait()
    assert node.run(**HOLD)["gate"]["open"]
    reboot(node)
    assert len(node.run(**HOLD)["gate"]["held"]) == 2


def test_operator_lets_in_what_is_held(node: AcceptScene) -> None:
    node.fault, node.bad_gpu = "cell", uuids(node, 1)[0]
    answer = node.run(**ON, override="deadline of team A")
    assert "failed" not in answer
    assert answer["gate"]["override"] == "deadline of team A"
    assert node.gate["override"]["gpus"] == uuids(node, 1)
    reboot(node)
    assert node.run(**HOLD)["gate"]["open"]
    node.fault = ""
    assert node.run(**ON)["gate"]["override"] == ""


def test_gate_is_removed(node: AcceptScene) -> None:
    node.run(**HOLD)
    answer = node.run(gate=False, test="never", fail=False)
    assert [step["action"] for step in answer["steps"]] == ["boot_remove", "gate_remove"]
    assert not {CONFIG, GATE} & set(node["files"])
    assert not node.run(gate=False, test="never", fail=False)["changed"]


def test_check_mode_holds_nothing(node: AcceptScene) -> None:
    assert node.run(check=True, **HOLD)["changed"]
    assert GATE not in node["files"]


def test_node_without_a_gate_gets_none(node: AcceptScene) -> None:
    answer = node.run()
    assert not answer["gate"]["on"]
    assert not {CONFIG, GATE} & set(node["files"])


def test_damaged_gate_is_refused(node: AcceptScene) -> None:
    node.run(**HOLD)
    node.change(files={**node["files"], GATE: "{"})
    assert f"{GATE} is damaged" in node.run(**HOLD)["failed"]
    assert json.loads(node["files"][CONFIG])["scope"] == "gpu"
