# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each part of a bring-up can be left out or taken alone, and no playbook does half of a change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.in_service.scene import Scene

WHOLE = [
    "device_plugin installed",
    "nvidia_driver present",
    "container_toolkit absent",
    "container_runtime present",
]
WHOLE += ["mig", "cdi present", "device_plugin started", "dcgm present", "validate"]
SLURM = ["device_plugin installed", "nvidia_driver present", "mig", "dcgm present", "validate"]
DOCKER = [*WHOLE[:6], "dcgm present", "validate"]


@pytest.mark.parametrize(
    ("playbook", "words", "variables", "expected"),
    [
        ("gpu_nodes", [], {}, WHOLE),
        ("gpu_nodes", ["--tags", "driver"], {}, ["nvidia_driver present"]),
        ("gpu_nodes", ["--tags", "labels"], {}, [WHOLE[0], "device_plugin started"]),
        ("gpu_nodes", ["--skip-tags", "runtime,toolkit"], {}, [*WHOLE[:2], *WHOLE[4:]]),
        ("gpu_nodes", [], {"gpu_nodes_components": ["driver"]}, ["nvidia_driver present"]),
        ("validate", ["--tags", "driver"], {}, ["validate"]),
        ("slurm_node", [], {}, SLURM),
        ("docker_host", [], {}, DOCKER),
    ],
)
def test_each_part_can_be_taken_alone_or_left_out(
    one: Scene, playbook: str, words: list[str], variables: dict[str, Any], expected: list[str]
) -> None:
    common = {"mig_selected": "half", "container_toolkit_state": "absent", "dcgm_state": "present"}
    one.write(**{**common, **variables})
    run = one.play(playbook, *words)
    assert run.status == 0, run.text
    assert one.log("n1") == expected


def test_what_the_plan_does_not_name_is_not_called(one: Scene) -> None:
    one.become("n1", plan=["driver", "dcgm"])
    one.write(dcgm_state="present")
    run = one.play("slurm_node")
    assert run.status == 0, run.text
    assert one.log("n1") == [SLURM[1], *SLURM[3:]]


def test_labels_are_left_out_alone(one: Scene) -> None:
    one.write(gpu_nodes_components=["device_plugin"])
    assert one.play("gpu_nodes").status == 0
    assert one.node("n1")["device_plugin"][1] == "off"


@pytest.mark.parametrize(
    ("components", "said"),
    [
        (
            ["drivers"],
            "value of gpu_nodes_components must be one or more of: driver, runtime, toolkit",
        ),
        (
            ["driver", "labels"],
            "gpu_nodes_components: labels is written by the device plugin's role",
        ),
    ],
)
def test_a_bad_list_of_parts_is_refused(one: Scene, components: list[str], said: str) -> None:
    one.write(gpu_nodes_components=components)
    run = one.play("gpu_nodes")
    assert run.status == 2
    assert said in run.text
    assert one.log("n1") == []


@pytest.mark.parametrize(
    "words", [["--tags", "driver"], ["--tags", "none"], ["--skip-tags", "mig"]]
)
def test_a_change_in_service_is_never_half_done(one: Scene, words: list[str]) -> None:
    one.write(nvidia_driver_version="580")
    run = one.play("upgrade_driver", *words)
    assert run.status == 0, run.text
    assert one.log("n1")[-2:] == ["device_plugin started", "validate"]
    assert one.node("n1")["nvidia_driver"] == "580"


@pytest.mark.parametrize("task", ["See what is there", "Note that the node's turn has come"])
def test_a_change_in_service_does_not_begin_in_the_middle(one: Scene, task: str) -> None:
    one.write(nvidia_driver_version="580")
    run = one.play("upgrade_driver", "--start-at-task", task)
    assert run.status != 0
    assert one.node("n1")["nvidia_driver"] == "550"
    assert not one.marker("n1").exists()
