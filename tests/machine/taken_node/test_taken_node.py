# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Root of one node, whatever it answers, reaches neither the controller nor another node by any playbook.

Each run has a playbook for a node that is alone, and then for a taken one and another, which shall fare as the first.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.environments.environment import CORES
from tests.environments.needed import made
from tests.machine.playbooks.scene import Run
from tests.machine.taken_node.attacks import ARCHIVES, ATTACKS, VICTIM, Changes, evidence
from tests.machine.taken_node.playbooks import CASES, prepare
from tests.machine.taken_node.scene import EVIL, TWIN, TakenScene, playbook
from tests.support.paths import REPOSITORY

BOTH = f"{EVIL},{VICTIM}"
DRAINS = {"Cordon and drain the node", "Drain the node in Slurm"}
# Tasks of the controller about a node, which the taken one comes to.
DELEGATED = {
    "mig": DRAINS | {"Give the node back"},
    "quarantine": {"Cordon the node for as long as it is in quarantine", "Drain the node in Slurm"},
    "reboot": DRAINS,
    "release": {"Give the node back that was in quarantine"},
    "repair": {"Drain the node in Slurm", "Give the node back"},
    "report": {"Write the report"},
    "teardown": DRAINS | {"Give the node back"},
    "upgrade_driver": DRAINS | {"Give the node back"},
    "validate": {"Run a pod with each GPU resource of the node", "Write the report"},
}
# A change of a node and a look at all of them; the others take long.
SHORT = ("quarantine", "report")
PLAYBOOKS = [pytest.param(name, marks=[] if name in SHORT else pytest.mark.long) for name in CASES]
CROSSED = [(name, attack) for name in CASES for attack in ATTACKS if attack != "aimed"]
SHOWN = 8000  # characters of what a run says
NOT_INJECTED = {"ANSIBLE_INJECT_FACT_VARS": "false"}


def attacked(scene: TakenScene, name: str, changes: Changes, **settings: str) -> Run:
    """Run a playbook, and what it is run beside."""
    prepare(scene, name, changes)
    return scene.run(playbook(name, TWIN), playbook(name, BOTH), **settings)


def check(scene: TakenScene, run: Run) -> None:
    """Fail with what the taken node has achieved, and the end of what the run said."""
    broken = scene.broken()
    assert not broken, "\n".join([*broken, run.text[-SHOWN:]])


def test_each_playbook_is_attacked() -> None:
    assert set(CASES) == {path.stem for path in (REPOSITORY / "playbooks").glob("*.yml")}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_node_that_is_not_taken_does_what_is_declared(scene: TakenScene, name: str) -> None:
    """Else an attack would be none, as it ends before it has begun."""
    run = attacked(scene, name, [])
    check(scene, run)
    assert scene.called_for(EVIL) >= DELEGATED.get(name, set()), run.text


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_taken_node_reaches_nothing_by_a_playbook(scene: TakenScene, name: str) -> None:
    run = attacked(scene, name, ATTACKS["aimed"](scene.target))
    check(scene, run)


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_taken_node_reaches_nothing_where_facts_are_no_variables(
    scene: TakenScene, name: str
) -> None:
    run = attacked(scene, name, ATTACKS["aimed"](scene.target), **NOT_INJECTED)
    check(scene, run)


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.long
@pytest.mark.parametrize(("name", "attack"), CROSSED)
def test_no_answer_of_a_taken_node_reaches_anything(
    scene: TakenScene, name: str, attack: str
) -> None:
    run = attacked(scene, name, ATTACKS[attack](scene.target))
    check(scene, run)


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.long
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", CASES)
def test_a_taken_node_reaches_nothing_by_any_core(scene: TakenScene, name: str, core: str) -> None:
    scene.core = made(core) / "bin"
    run = attacked(scene, name, ATTACKS["aimed"](scene.target))
    check(scene, run)


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.long
@pytest.mark.parametrize("archive", ARCHIVES)
def test_evidence_is_fetched_by_a_name_of_the_controllers(
    scene: TakenScene, archive: dict[str, Any]
) -> None:
    run = attacked(scene, "repair", [evidence(archive)])
    check(scene, run)


# A play of the operator's own, which has asked the nodes for their facts before.
EARLIER = {
    "name": "Ask for facts",
    "hosts": BOTH,
    "gather_facts": True,
    "gather_subset": ["!all", "!min"],
}


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_taken_node_reaches_nothing_by_what_it_said_before(scene: TakenScene, name: str) -> None:
    prepare(scene, name, ATTACKS["aimed"](scene.target))
    run = scene.run(playbook(name, TWIN), EARLIER, playbook(name, BOTH))
    check(scene, run)


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_taken_node_reaches_nothing_by_what_a_cache_has_of_it(
    scene: TakenScene, name: str
) -> None:
    cache = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": "../cache"}
    prepare(scene, name, ATTACKS["aimed"](scene.target))
    scene.run(EARLIER, **cache)
    scene.forget()
    run = scene.run(playbook(name, TWIN), playbook(name, BOTH), **cache)
    check(scene, run)


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), [("report", "validate"), ("gpu_nodes", "repair")])
def test_a_taken_node_reaches_nothing_by_the_playbook_after(
    scene: TakenScene, first: str, second: str
) -> None:
    prepare(scene, second, ATTACKS["aimed"](scene.target))
    names = (first, second)
    run = scene.run(*(playbook(name, hosts) for hosts in (TWIN, BOTH) for name in names))
    check(scene, run)
