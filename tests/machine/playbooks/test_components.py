# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each part of a bring-up can be left out or taken alone, and no playbook does half of a change."""

from __future__ import annotations

import pytest

from tests.machine.playbooks.scene import Scene, imported

WHOLE = [
    "device_plugin installed",
    "host present",
    "nvidia_driver present",
    "container_toolkit absent",
    "container_runtime present",
]
WHOLE += ["mig present", "settings present", "cdi present", "device_plugin started"]
WHOLE += ["dcgm present", "validate"]
SLURM = [*WHOLE[:3], *WHOLE[5:7], *WHOLE[9:]]
DOCKER = [*WHOLE[:8], *WHOLE[9:]]
COMMON = {"mig_selected": "half", "container_toolkit_state": "absent", "dcgm_state": "present"}


def test_each_playbook_calls_its_parts_and_those_that_are_chosen(one: Scene) -> None:
    one.write(**COMMON)
    run = one.play(
        "gpu_nodes",
        imported("gpu_nodes", gpu_nodes_components=["driver"]),
        "slurm_node",
        "docker_host",
    )
    assert run.status == 0, run.text
    assert one.log("n1") == [*WHOLE, "nvidia_driver present", *SLURM, *DOCKER]


def test_a_check_says_that_it_does_not_validate(one: Scene) -> None:
    said = "A check plans, and does not validate"
    assert said in one.play("gpu_nodes", options=["--check"]).text
    assert said not in one.play("gpu_nodes", options=["--check", "--tags", "driver"]).text
    assert said not in one.play("gpu_nodes").text


def test_a_tag_takes_its_part_alone_and_validate_has_none(one: Scene) -> None:
    one.write(**COMMON)
    run = one.play("gpu_nodes", "validate", options=["--tags", "driver"])
    assert run.status == 0, run.text
    assert one.log("n1") == ["nvidia_driver present", "validate"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--tags", "labels"], [WHOLE[0], "device_plugin started"]),
        (["--skip-tags", "runtime,toolkit"], [*WHOLE[:3], *WHOLE[5:]]),
    ],
)
def test_other_tags_leave_out_what_they_do_not_name(
    one: Scene, words: list[str], expected: list[str]
) -> None:
    one.write(**COMMON)
    run = one.play("gpu_nodes", options=words)
    assert run.status == 0, run.text
    assert one.log("n1") == expected


def test_what_the_plan_does_not_name_is_not_called(one: Scene) -> None:
    one.become("n1", plan=["driver", "dcgm"])
    one.write(dcgm_state="present")
    run = one.play("slurm_node")
    assert run.status == 0, run.text
    assert one.log("n1") == [SLURM[2], *SLURM[5:]]


@pytest.mark.parametrize("words", [[], ["--check"]])
def test_what_the_plan_refuses_no_run_begins(one: Scene, words: list[str]) -> None:
    one.become("n1", refused=["container_runtime: its CRI is switched off"])
    run = one.play("gpu_nodes", options=words)
    assert run.status == 2
    assert "container_runtime: its CRI is switched off" in run.text
    assert set(one.log("n1")) <= {"plan check"}


@pytest.mark.long
def test_labels_are_left_out_alone(one: Scene) -> None:
    one.write(gpu_nodes_components=["device_plugin"])
    assert one.play("gpu_nodes").status == 0
    assert one.node("n1")["device_plugin"][1] == "off"


@pytest.mark.parametrize(
    ("components", "said"),
    [
        pytest.param(
            ["drivers"],
            "value of gpu_nodes_components must be one or more of: host, driver, runtime, toolkit",
            marks=pytest.mark.long,
        ),
        (
            ["driver", "labels"],
            "gpu_nodes_components: the role device_plugin writes the labels",
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
    "words",
    [
        ["--tags", "driver"],
        pytest.param(["--tags", "none"], marks=pytest.mark.long),
        pytest.param(["--skip-tags", "mig"], marks=pytest.mark.long),
    ],
)
def test_a_change_in_service_is_never_half_done(one: Scene, words: list[str]) -> None:
    one.write(nvidia_driver_version="580")
    run = one.play("upgrade_driver", options=words)
    assert run.status == 0, run.text
    assert one.log("n1")[-2:] == ["device_plugin started", "validate"]
    assert one.node("n1")["nvidia_driver"] == "580"


@pytest.mark.parametrize(
    "task",
    [
        "See what is there",
        pytest.param("Note that the node's turn has come", marks=pytest.mark.long),
    ],
)
def test_a_change_in_service_does_not_begin_in_the_middle(one: Scene, task: str) -> None:
    one.write(nvidia_driver_version="580")
    run = one.play("upgrade_driver", options=["--start-at-task", task])
    assert run.status != 0
    assert one.node("n1")["nvidia_driver"] == "550"
    assert not one.marker("n1").exists()


@pytest.mark.parametrize(
    ("playbook", "task"),
    [
        ("gpu_nodes", "Bring up the components that the plan names"),
        ("upgrade_driver", "Change the node"),
        ("report", "Fail where the node could not be read"),
        ("validate", "Show what was found"),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in (
                ("gpu_nodes", "Leave a node without a GPU alone"),
                ("gpu_nodes", "Fail where a component would be refused"),
                ("upgrade_driver", "Fail where the node does not answer"),
                ("upgrade_driver", "See that a drain would not be refused"),
                ("upgrade_driver", "Note that the node is done"),
                ("mig", "Change the node"),
                ("report", "Look at the GPUs of a node that can't be planned"),
                ("validate", "Fail where a check does not hold"),
            )
        ),
    ],
)
def test_a_run_that_begins_in_the_middle_says_how_to_begin(
    one: Scene, playbook: str, task: str
) -> None:
    one.write(nvidia_driver_version="580")
    run = one.play(playbook, options=["--start-at-task", task], report_html_path="")
    assert (run.status, run.tasks[0]) == (2, task)
    assert "Next step: run the playbook without --start-at-task" in run.text, run.text
    assert [line for line in one.log("n1") if not line.endswith(" check")] == []
    assert not one.marker("n1").exists()
