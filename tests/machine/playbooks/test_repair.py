# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU is repaired: in which order, and that every end is right, also where a run is killed or something is away."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machine.playbooks.conftest import MakeScene
from tests.machine.playbooks.scene import Scene

A, B = "GPU-a", "GPU-b"
ORDER = [
    "repair observed",
    "repair observed",
    "gpu_reset check",
    "repair planned",
    "repair evidence",
    "gpu_evidence",
    "repair evidence",
    "repair fenced",
    "quarantine present",
    "repair observed",
    "repair stopped",
    "repair reset",
    "gpu_reset",
    "repair reset",
    "repair planned",
    "cdi present",
    "device_plugin started",
    "validate",
    "repair restored",
    "accept",
    "repair proved",
    "quarantine absent",
    "repair released",
    "repair released",
]


def sick(nodes: Scene, name: str = "n1", **more: Any) -> None:
    nodes.become(name, sick={A: "reset", B: ""}, **more)


def ended(nodes: Scene, name: str = "n1") -> bool:
    """Return whether nothing of a repair is left on a node, and all of its GPUs are well and given back."""
    node = nodes.node(name)
    stages = {one["stage"] for one in node["cases"].values()}
    left = (node["fenced"], node["lease"], nodes.marker(name).exists(), any(node["sick"].values()))
    return stages == {"released"} and left == ([], "", False, False)


def test_a_gpu_goes_from_its_fault_back_into_service(one: Scene) -> None:
    sick(one)
    run = one.play("repair")
    assert run.status == 0, run.text
    assert one.log("n1") == ORDER
    assert ended(one)
    (archive,) = (one.folder / "evidence/n1").iterdir()
    assert archive.name.startswith(f"{A}.before.")
    assert archive.stat().st_mode & 0o777 == 0o600
    assert archive.parent.stat().st_mode & 0o777 == 0o700
    one.become("n1", log=[])
    again = one.play("repair")
    assert again.status == 0, again.text
    assert "changed=0" in again.text
    assert one.log("n1") == ["repair observed"]


def test_a_reset_that_takes_other_gpus_is_made_for_all_of_them(one: Scene) -> None:
    """Without them it would not be one of all GPUs with their switches."""
    one.become("n1", sick={A: "reset", B: "replace"}, with_them=[B])
    assert one.play("repair").status == 0
    assert one.node("n1")["sick"] == {A: "", B: ""}


def test_check_mode_says_what_would_be_done_and_changes_nothing(one: Scene) -> None:
    sick(one, held_by={A: ["process 4711 (python3, pod team/train)"]})
    run = one.play("repair", options=("--check",))
    assert run.status == 0, run.text
    assert "GPU GPU-a: reset" in run.text
    assert "would reset GPU-a" in run.text
    assert "in the way: process 4711 (python3, pod team/train)" in run.text
    assert all(each.endswith(" check") for each in one.log("n1"))
    assert not one.marker("n1").exists()


def test_only_who_has_the_gpu_leaves_and_the_node_is_not_cordoned(one: Scene) -> None:
    sick(one, pods={A: ["team/train"], B: ["team/serve"]})
    one.write(gpu_nodes_kubeconfig="cluster.conf")
    run = one.play("repair")
    assert run.status == 0, run.text
    assert ended(one)
    assert one.node("n1")["drains"] == ["team/train"]
    log = one.log("n1")
    assert log.index("quarantine present") < log.index("drain evicted") < log.index("gpu_reset")


def test_what_waits_for_a_person_is_fenced_with_its_evidence_and_the_node_stays(one: Scene) -> None:
    one.become("n1", sick={A: "replace", B: ""})
    one.write(gpu_nodes_kubeconfig="cluster.conf", gpu_nodes_hooks_before=[one.hook("before")])
    for _run in range(2):
        run = one.play("repair")
        assert run.status == 0, run.text
        assert "GPU GPU-a: replace" in run.text
        node = one.node("n1")
        assert (node["fenced"], node["lease"], one.marker("n1").exists()) == ([A], "", False)
        assert node["cases"][A]["evidence"].endswith("GPU-a.tar.gz")
        assert one.hooks("n1") == []
        assert not {"drain drained", "drain evicted", "validate"} & set(one.log("n1"))
        assert one.log("n1").count("gpu_evidence") == 1


def test_a_reset_that_fails_leaves_the_gpu_set_aside_and_the_node_in_service(one: Scene) -> None:
    sick(one, stubborn=[A])
    run = one.play("repair")
    assert run.status == 0, run.text
    assert "it did not come back from the reset" in run.text
    node = one.node("n1")
    assert (node["fenced"], node["lease"], one.marker("n1").exists()) == ([A], "", False)
    assert node["cases"][A]["attempts"] == ["reset"]
    assert one.log("n1")[-1] == "repair released"
    assert "quarantine absent" not in one.log("n1")


def test_a_gpu_in_use_is_not_taken_from_anybody_and_counts_as_no_attempt(one: Scene) -> None:
    sick(one, held_by={A: ["process 4711 (python3)"]})
    run = one.play("repair")
    assert run.status == 0, run.text
    assert "the GPU is in use" in run.text
    node = one.node("n1")
    assert (node["fenced"], node["cases"][A]["attempts"], node["sick"][A]) == ([A], [], "reset")
    one.become("n1", held_by={})
    assert one.play("repair").status == 0
    assert ended(one)


def test_two_gpus_at_once_are_repaired_and_one_of_them_stays(one: Scene) -> None:
    one.become("n1", sick={A: "reset", B: "reset"}, stubborn=[B])
    run = one.play("repair")
    assert run.status == 0, run.text
    node = one.node("n1")
    assert (node["fenced"], node["cases"][A]["stage"]) == ([B], "released")
    assert node["cases"][B]["stage"] != "released"


def test_a_node_that_another_change_has_is_left_alone(scene: MakeScene) -> None:
    nodes = scene("n1", "n2")
    sick(nodes)
    sick(nodes, "n2")
    nodes.write(nvidia_driver_version="580", repair_max_unavailable=2)
    killed = nodes.play("upgrade_driver", cut_off_at="Driver", options=("--limit", "n1"))
    assert killed.status < 0
    marker = nodes.marker("n1")
    marker.write_text(marker.read_text().replace('"machine": "', '"machine": "another '))
    before = len(nodes.log("n1"))
    run = nodes.play("repair")
    assert run.status == 0, run.text
    assert "n1 is not repaired now: the node is in the middle of upgrade_driver" in run.text
    assert nodes.log("n1")[before:] == ["repair observed"]
    assert ended(nodes, "n2")


def test_a_fault_that_comes_in_a_roll_out_is_repaired_by_the_run_after_it(scene: MakeScene) -> None:
    nodes = scene("n1", "n2")
    nodes.become("n1", fails={"validate": "1 of 2 GPUs on the PCI bus answer"})
    nodes.write(nvidia_driver_version="580", repair_max_unavailable=2)
    upgrade = nodes.play("upgrade_driver")
    assert upgrade.status == 2, upgrade.text
    assert "1 of 2 GPUs on the PCI bus answer. The node stays out of service" in upgrade.text
    assert nodes.marker("n1").exists()
    sick(nodes, fails={})
    run = nodes.play("repair")
    assert run.status == 0, run.text
    assert ended(nodes)
    assert nodes.node("n1")["nvidia_driver"] == "580"


def test_no_more_nodes_are_in_repair_than_the_limit_allows(scene: MakeScene) -> None:
    nodes = scene("n1", "n2", "n3")
    for name in nodes.names:
        nodes.become(name, sick={A: "replace"})
    nodes.write(repair_max_unavailable=1)
    for _run in range(2):
        run = nodes.play("repair")
        assert run.status == 0, run.text
        assert "n2, n3: not repaired now" in run.text
        assert [nodes.node(name).get("fenced", []) for name in nodes.names] == [[A], [], []]


def test_a_validation_that_fails_gives_nothing_back(one: Scene) -> None:
    sick(one, fails={"validate": "a container opens no GPU"})
    run = one.play("repair")
    assert run.status == 2, run.text
    assert "repair: n1: a container opens no GPU. The node stays out of service" in run.text
    assert one.node("n1")["fenced"] == [A]
    one.become("n1", fails={})
    assert one.play("repair").status == 0
    assert ended(one)


@pytest.mark.parametrize(
    ("tested", "text"),
    [
        ({"verdict": "failed", "faults": ["memory: 4 wrong words"]}, "failed: memory: 4 wrong"),
        ({"verdict": "incomplete", "not_measured": {"memory": "no libcuda"}}, "no libcuda"),
    ],
)
def test_gpu_that_does_not_pass_its_load_test_stays_set_aside(
    one: Scene, tested: dict[str, Any], text: str
) -> None:
    sick(one, tested=tested)
    run = one.play("repair")
    assert run.status == 0, run.text
    assert f"GPU {A} stays set aside: its load test has the verdict" in run.text
    assert text in run.text
    node = one.node("n1")
    assert (node["fenced"], node["cases"][A]["stage"]) == ([A], "failed")
    one.become("n1", tested={}, sick={A: "", B: ""})
    assert one.play("repair").status == 0
    assert ended(one)


def test_gpu_in_mig_mode_is_given_back_without_a_load_test(one: Scene) -> None:
    sick(one, tested={"verdict": "untested", "not_measured": {"load test": "it is in MIG mode"}})
    assert one.play("repair").status == 0
    assert ended(one)


def test_repair_without_a_load_test_gives_back_what_shows_no_fault(one: Scene) -> None:
    sick(one, tested={"verdict": "failed"})
    one.write(repair_load_test=False)
    assert one.play("repair").status == 0
    assert ended(one)
    assert "accept" not in one.log("n1")


KILLED_AT = [
    "Mark the change as begun",
    "Write down how far the repair is",
    "Keep the evidence",
    "Fetch the evidence",
    "Set the GPU aside",
    "Reset the GPUs",
    "Write down which GPUs were reset",
    "Apply the MIG layout again",
    "Prove the GPU, and give it back",
    "Give the GPU back",
    "Write down that the GPU was given back",
    "Give the lease back",
    "Mark the change as done",
]
SHORT = ("Set the GPU aside", "Reset the GPUs", "Give the GPU back")


@pytest.mark.parametrize(
    "task", [pytest.param(one, marks=[] if one in SHORT else pytest.mark.long) for one in KILLED_AT]
)
def test_killed_at_any_task_the_next_run_gives_the_gpu_back(one: Scene, task: str) -> None:
    sick(one)
    killed = one.play("repair", cut_off_at=task)
    if task in killed.tasks:
        assert killed.status < 0, killed.text
    node = one.node("n1")
    assert not node["sick"][A] or task not in ("Give the GPU back",)
    again = one.play("repair")
    assert again.status == 0, again.text
    assert ended(one)
    assert one.node("n1")["cases"][A]["evidence"]


def test_an_api_server_that_goes_away_gives_nothing_back_and_the_next_run_goes_on(
    one: Scene,
) -> None:
    why = "the drain has not ended in time: the API server is away"
    sick(one, pods={A: ["team/train"]}, fails={"drain evicted": why})
    one.write(gpu_nodes_kubeconfig="cluster.conf")
    away = one.play("repair")
    assert away.status == 2, away.text
    assert f"repair: n1: {why}" in away.text
    node = one.node("n1")
    assert (node["fenced"], node["sick"][A], node["cases"][A]["attempts"]) == ([A], "reset", [])
    one.become("n1", fails={})
    again = one.play("repair")
    assert again.status == 0, again.text
    assert ended(one)
    assert one.log("n1").count("gpu_evidence") == 1


def test_a_reset_that_fails_falls_back_to_a_reboot_only_where_that_is_allowed(one: Scene) -> None:
    """A node of this machine's own is not rebooted: Ansible refuses that, after the drain."""
    sick(one, stubborn=[A])
    one.write(gpu_nodes_kubeconfig="cluster.conf", repair_reboot="when_needed")
    run = one.play("repair")
    assert "would reboot the control node" in run.text
    node = one.node("n1")
    assert node["cases"][A]["attempts"] == ["reset", "reboot"]
    assert (node["drains"], node["fenced"]) == ("all", [A])
    assert one.log("n1").index("gpu_reset") < one.log("n1").index("drain drained")


def test_without_evidence_the_gpu_is_set_aside_and_nothing_else_is_changed(one: Scene) -> None:
    sick(one, fails={"gpu_evidence": "no space left on the node"})
    run = one.play("repair")
    assert run.status == 0, run.text
    assert "is set aside and not repaired yet" in run.text
    assert "no space left on the node" in run.text
    node = one.node("n1")
    assert (node["fenced"], node["sick"][A], one.marker("n1").exists()) == ([A], "reset", False)
    assert "gpu_reset" not in one.log("n1")
    one.become("n1", fails={})
    assert one.play("repair").status == 0
    assert ended(one)


def test_a_node_whose_only_gpu_is_off_the_bus_is_told_of(one: Scene) -> None:
    one.become("n1", gpus=0, sick={A: "reboot"})
    run = one.play("repair")
    assert run.status == 0, run.text
    assert one.node("n1")["fenced"] == [A]


def test_a_reset_that_a_rule_refuses_leaves_the_node_in_service_and_to_the_next_run(
    one: Scene,
) -> None:
    why = "GPU-a can't be reset without GPU-b"
    sick(one, fails={"gpu_reset check": why})
    for _run in range(2):
        run = one.play("repair")
        assert run.status == 0, run.text
        assert why in run.text
        assert (one.node("n1")["fenced"], one.node("n1")["lease"]) == ([A], "")
        assert not {"gpu_reset", "validate"} & set(one.log("n1"))


def test_a_gpu_that_could_not_be_set_as_declared_is_not_given_back(one: Scene) -> None:
    one.become(
        "n1", sick={A: "reset", B: "reset"}, left_alone={A: "", B: "power_limit can't be set"}
    )
    one.write(settings_rules=[{"power_limit": 550}])
    run = one.play("repair")
    assert run.status == 0, run.text
    assert "GPU GPU-b stays set aside: it is not set as it is declared: power_limit" in run.text
    node = one.node("n1")
    assert node["fenced"] == [B]
    assert {uuid: case["stage"] for uuid, case in node["cases"].items()} == {
        A: "released",
        B: "failed",
    }
    log = one.log("n1")
    assert log.index("settings present") < log.index("validate") < log.index("quarantine absent")
