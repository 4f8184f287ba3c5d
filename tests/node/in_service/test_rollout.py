# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A roll-out over three nodes: how many change at a time, and when it ends as some have failed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.in_service.scene import Scene

UPGRADE = "upgrade_driver"
FAILS = {"nvidia_driver present": "apt-get failed with status 100"}


def versions(scene: Scene) -> list[str]:
    return [scene.node(name)["nvidia_driver"] for name in scene.names]


@pytest.mark.parametrize(
    ("playbook", "variables", "batches"),
    [
        ("mig", {}, 3),
        ("mig", {"mig_serial": 1}, 3),
        ("mig", {"mig_serial": "100%"}, 1),
        ("mig", {"gpu_nodes_serial": "{{ 1 + 1 }}"}, 2),
        ("upgrade_driver", {"gpu_nodes_serial": "67%"}, 2),
        ("upgrade_driver", {"gpu_nodes_serial": [1, "100%"]}, 2),
        ("upgrade_driver", {"nvidia_driver_serial": 3}, 1),
    ],
)
def test_serial_is_read_from_the_inventory(
    three: Scene, playbook: str, variables: dict[str, Any], batches: int
) -> None:
    three.write(**variables)
    run = three.play(playbook)
    assert run.status == 0, run.text
    assert run.batches == batches
    said = "deprecated, write gpu_nodes_serial" in run.text
    assert said == any(not name.startswith("gpu_nodes") for name in variables)


def test_the_first_node_that_fails_ends_the_roll_out(three: Scene) -> None:
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
    ("failing", "variables", "expected"),
    [
        (["n1"], {"gpu_nodes_max_unavailable": 2}, ["550", "580", "580"]),
        (["n1", "n2"], {"gpu_nodes_max_unavailable": 2}, ["550", "550", "550"]),
        (
            ["n1"],
            {"gpu_nodes_serial": 2, "gpu_nodes_max_fail_percentage": 50},
            ["550", "580", "580"],
        ),
        (
            ["n1"],
            {"gpu_nodes_serial": 2, "gpu_nodes_max_fail_percentage": "49%"},
            ["550", "580", "550"],
        ),
    ],
)
def test_the_roll_out_ends_at_its_budget(
    three: Scene, failing: list[str], variables: dict[str, Any], expected: list[str]
) -> None:
    for name in failing:
        three.become(name, fails=FAILS)
    three.write(nvidia_driver_version="580", **variables)
    run = three.play(UPGRADE)
    assert run.status == 2, run.text
    assert versions(three) == expected
    assert run.text.count("The node stays out of service") >= len(failing)


def test_a_node_that_does_not_answer_counts(three: Scene) -> None:
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    three.write({"n1": lost}, nvidia_driver_version="580", gpu_nodes_max_unavailable=2)
    run = three.play(UPGRADE)
    assert run.status == 2, run.text
    assert versions(three) == ["550", "580", "580"]
    assert "upgrade_driver: n1: nothing was touched" in run.text


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"gpu_nodes_serial": "abc"},
            "gpu_nodes_serial of n1: 'abc' is not valid: expected a number",
        ),
        ({"gpu_nodes_serial": 0}, "gpu_nodes_serial of n1: 0 is not valid"),
        ({"gpu_nodes_serial": []}, "gpu_nodes_serial of n1: [] is not valid"),
        ({"gpu_nodes_serial": [1, "200%"]}, "gpu_nodes_serial of n1: '200%' is not valid"),
        ({"nvidia_driver_serial": "12.5%"}, "nvidia_driver_serial of n1: '12.5%' is not valid"),
        ({"gpu_nodes_max_unavailable": 0}, "gpu_nodes_max_unavailable of n1: 0 is not valid"),
        ({"gpu_nodes_max_fail_percentage": 101}, "gpu_nodes_max_fail_percentage of n1: 101"),
    ],
)
def test_a_bad_number_is_refused_before_anything(
    three: Scene, variables: dict[str, Any], said: str
) -> None:
    three.write(nvidia_driver_version="580", **variables)
    run = three.play(UPGRADE)
    assert run.status == 2
    assert said in run.text
    assert "Traceback" not in run.text
    assert [three.log(name) for name in three.names] == [[], [], []]


def test_nodes_that_disagree_are_refused(three: Scene) -> None:
    three.write({"n3": {"gpu_nodes_serial": 3}}, gpu_nodes_serial=1, nvidia_driver_version="580")
    run = three.play(UPGRADE)
    assert run.status == 2
    assert "gpu_nodes_serial: nodes of one roll-out disagree: 1 for n1, n2, 3 for n3" in run.text
    assert three.log("n1") == []


def test_check_mode_shows_every_plan_and_changes_nothing(three: Scene) -> None:
    three.become("n1", fails={"nvidia_driver present check": "version: '580' is not valid"})
    three.write(nvidia_driver_version="580", gpu_nodes_hooks_before=[three.hook("before")])
    run = three.play(UPGRADE, "--check")
    assert run.status == 2, run.text
    assert [three.log(name)[-1] for name in three.names] == ["nvidia_driver present check"] * 3
    assert versions(three) == ["550"] * 3
    assert not any(three.marker(name).exists() for name in three.names)
    assert not any(three.hooks(name) for name in three.names)


def test_a_roll_out_goes_step_by_step_whatever_the_configuration_says(
    three: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Ansible's strategy free, what is to be done once is done by each node, and batches are none."""
    monkeypatch.setenv("ANSIBLE_STRATEGY", "free")
    three.write(nvidia_driver_version="580", gpu_nodes_serial=2)
    run = three.play(UPGRADE)
    assert run.status == 0, run.text
    assert "free" not in run.text
    assert run.tasks.count("Read how many nodes may change at a time") == 1
    assert run.batches == 2
