# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A roll-out over several nodes: how many change at a time, and when it ends as some have failed.

Which numbers are valid, and what they mean, is in tests/pure/library/drain/test_rollout.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.machine.playbooks.conftest import MakeScene
from tests.machine.playbooks.scene import Scene

UPGRADE = "upgrade_driver"
FAILS = {"nvidia_driver present": "apt-get failed with status 100"}
UNPLANNED = {"mig check": "the layout does not fit"}


def versions(nodes: Scene) -> list[str]:
    return [nodes.node(name)["nvidia_driver"] for name in nodes.names]


def reached(nodes: Scene) -> list[str]:
    """Return the nodes whose turn has come."""
    return [name for name in nodes.names if nodes.log(name)]


@pytest.mark.parametrize(
    ("playbook", "names", "variables", "batches"),
    [
        ("mig", "ab", {"mig_serial": "100%"}, 1),
        pytest.param(
            *("upgrade_driver", "abc", {"gpu_nodes_serial": "{{ [1, '100%'] }}"}, 2),
            marks=pytest.mark.long,
        ),
        pytest.param(
            "upgrade_driver", "ab", {"nvidia_driver_serial": 3}, 1, marks=pytest.mark.long
        ),
    ],
)
def test_serial_is_read_from_the_inventory(
    scene: MakeScene, playbook: str, names: str, variables: dict[str, Any], batches: int
) -> None:
    nodes = scene(*names)
    nodes.write(**variables)
    run = nodes.play(playbook)
    assert run.status == 0, run.text
    assert run.batches == batches
    said = "deprecated, write gpu_nodes_serial" in run.text
    assert said == any(not name.startswith("gpu_nodes") for name in variables)


def test_the_first_node_that_fails_ends_the_roll_out(scene: MakeScene) -> None:
    three = scene("n1", "n2", "n3")
    three.become("n2", fails=FAILS)
    three.write(nvidia_driver_version="580", gpu_nodes_hooks_after=[three.hook("after")])
    run = three.play(UPGRADE)
    assert run.status == 2, run.text
    assert versions(three) == ["580", "550", "550"]
    assert "n3 was not touched: 1 of 3 nodes failed (n2), and neither" in run.text
    assert "upgrade_driver: n2: apt-get failed with status 100. The node stays out" in run.text
    assert "no hook that comes after was run" in run.text
    assert three.log("n3") == []
    assert [three.marker(name).exists() for name in three.names] == [False, True, False]
    assert [three.hooks(name) for name in three.names] == [["after"], [], []]

    three.become("n2", fails={})
    again = three.play(UPGRADE)
    assert again.status == 0, again.text
    assert versions(three) == ["580", "580", "580"]
    assert [three.hooks(name) for name in three.names] == [["after"]] * 3
    assert not any(three.marker(name).exists() for name in three.names)


@pytest.mark.parametrize(
    ("failing", "variables", "turns"),
    [
        ("a", {"gpu_nodes_serial": 2, "gpu_nodes_max_fail_percentage": "49%"}, "ab"),
        pytest.param(
            *("a", {"gpu_nodes_serial": 2, "gpu_nodes_max_fail_percentage": 50}, "abc"),
            marks=pytest.mark.long,
        ),
        pytest.param("ab", {"gpu_nodes_max_unavailable": 2}, "ab", marks=pytest.mark.long),
    ],
)
def test_the_roll_out_ends_at_its_budget(
    scene: MakeScene, failing: str, variables: dict[str, Any], turns: str
) -> None:
    nodes = scene(*"abc")
    for name in failing:
        nodes.become(name, fails=UNPLANNED)
    nodes.write(mig_selected="half", **variables)
    run = nodes.play("mig")
    assert run.status == 2, run.text
    assert reached(nodes) == list(turns)
    for name in nodes.names:
        assert nodes.node(name).get("mig") == ("half" if name in {*turns} - {*failing} else None)


def test_a_node_that_does_not_answer_counts_and_the_budget_lets_the_others_change(
    scene: MakeScene,
) -> None:
    two = scene("n1", "n2")
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    two.write({"n1": lost}, nvidia_driver_version="580", gpu_nodes_max_unavailable=2)
    run = two.play(UPGRADE)
    assert run.status == 2, run.text
    assert versions(two) == ["550", "580"]
    assert "upgrade_driver: n1: nothing was touched" in run.text


def test_what_is_wrong_with_the_settings_is_refused_before_anything(scene: MakeScene) -> None:
    three = scene("n1", "n2", "n3")
    three.write({"n3": {"gpu_nodes_serial": 3}}, gpu_nodes_serial=1, nvidia_driver_version="580")
    run = three.play(UPGRADE)
    assert run.status == 2
    assert "gpu_nodes_serial: nodes of one roll-out disagree: 1 for n1, n2, 3 for n3" in run.text
    assert "Traceback" not in run.text
    assert reached(three) == []


def test_check_mode_shows_every_plan_and_changes_nothing(scene: MakeScene) -> None:
    two = scene("n1", "n2")
    two.become("n1", fails={"nvidia_driver present check": "version: '580' is not valid"})
    two.write(nvidia_driver_version="580", gpu_nodes_hooks_before=[two.hook("before")])
    run = two.play(UPGRADE, options=["--check"])
    assert run.status == 2, run.text
    assert [two.log(name)[-1] for name in two.names] == ["nvidia_driver present check"] * 2
    assert versions(two) == ["550"] * 2
    assert not any(two.marker(name).exists() for name in two.names)
    assert not any(two.hooks(name) for name in two.names)


def test_a_roll_out_goes_step_by_step_whatever_the_configuration_says(
    scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Ansible's strategy free, what is to be done once is done by each node, and batches are none."""
    monkeypatch.setenv("ANSIBLE_STRATEGY", "free")
    two = scene("n1", "n2")
    two.write()
    run = two.play(UPGRADE)
    assert run.status == 0, run.text
    assert run.tasks.count("Read how many nodes may change at a time") == 1
    assert run.batches == 2
