# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Root of one node, whatever it answers, neither reaches the controller nor another node by any playbook."""

from __future__ import annotations

import pytest

from tests.machine.playbooks.scene import Run
from tests.machine.taken_node.attacks import ATTACKS, VICTIM
from tests.machine.taken_node.playbooks import CASES, prepare
from tests.machine.taken_node.scene import EVIL, TWIN, TakenScene, playbook
from tests.support.paths import REPOSITORY

INJECTED = {"facts are variables": "true", "facts are no variables": "false"}


def attacked(scene: TakenScene, name: str, attack: str, **settings: str) -> Run:
    """Run a playbook for a node that is alone, and then for a taken one and another."""
    prepare(scene, name, ATTACKS[attack](scene.target))
    hosts = (TWIN, f"{EVIL},{VICTIM}")
    return scene.run(*(playbook(name, each) for each in hosts), **settings)


def test_each_playbook_is_attacked() -> None:
    assert set(CASES) == {path.stem for path in (REPOSITORY / "playbooks").glob("*.yml")}


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.parametrize("name", CASES)
def test_a_taken_node_reaches_nothing_by_a_playbook(scene: TakenScene, name: str) -> None:
    run = attacked(scene, name, "aimed")
    assert scene.broken() == [], run.text
