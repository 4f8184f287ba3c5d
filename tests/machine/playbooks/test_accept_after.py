# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs are tested after a driver upgrade or a MIG change, before the node is given back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machine.playbooks.scene import Run, Scene

UPGRADE = "upgrade_driver"
GOOD, BAD = "GPU-good", "GPU-bad"
AFTER = ["accept", "cdi present", "device_plugin started", "validate"]


def change(nodes: Scene, playbook: str, **variables: Any) -> Run:
    """Run a playbook that changes the node, which Kubernetes and hooks take out of service."""
    nodes.write(
        nvidia_driver_version="580",
        mig_selected="half" if playbook == "mig" else "",
        gpu_nodes_kubeconfig="cluster.conf",
        gpu_nodes_hooks_after=[nodes.hook("resumed")],
        **variables,
    )
    return nodes.play(playbook)


def fail(nodes: Scene, verdict: str = "failed") -> None:
    """Have a test of the node's two GPUs end with this verdict for one of them."""
    nodes.become("n1", rows=[{"uuid": GOOD}, {"uuid": BAD, "verdict": verdict}])


def in_service(nodes: Scene) -> bool:
    """Return whether the node was given back, by hooks and in Kubernetes."""
    log = nodes.log("n1")
    back = "drain uncordoned" in log and nodes.hooks("n1") == ["resumed"]
    assert back is not nodes.marker("n1").exists()
    return back


def test_gpus_are_tested_while_a_node_has_its_driver_upgraded(one: Scene) -> None:
    run = change(one, UPGRADE, accept_after=["driver_upgrade"])
    assert run.status == 0, run.text
    log = one.log("n1")
    assert log[log.index("nvidia_driver present") + 1 :] == [*AFTER, "drain uncordoned"]
    assert one.node("n1")["tests"] == ["when_needed"]
    assert in_service(one)
    again = change(one, UPGRADE, accept_after=["driver_upgrade"])
    assert "changed=0" in again.text
    assert one.log("n1").count("accept") == 1


@pytest.mark.parametrize("after", [[], ["mig_change"]])
def test_no_gpu_is_tested_after_a_change_that_is_not_named(one: Scene, after: list[str]) -> None:
    run = change(one, UPGRADE, accept_after=after)
    assert run.status == 0, run.text
    assert "accept" not in one.log("n1")


def test_each_whole_gpu_is_tested_after_a_mig_change(one: Scene) -> None:
    run = change(one, "mig", accept_after=["mig_change"])
    assert run.status == 0, run.text
    log = one.log("n1")
    assert log[log.index("mig present") + 1 :] == [*AFTER, "drain uncordoned"]
    assert one.node("n1")["tests"] == ["always"]


def test_gpu_in_mig_mode_stays_untested_and_keeps_no_node_out(one: Scene) -> None:
    fail(one, "untested")
    run = change(one, "mig", accept_after=["mig_change"])
    assert run.status == 0, run.text
    assert in_service(one)


@pytest.mark.parametrize("gate", [{"gpu_nodes_gate": True}, {}])
def test_node_with_a_gate_is_tested_before_a_layout_and_after_it(
    one: Scene, gate: dict[str, bool]
) -> None:
    if not gate:
        one.puts("n1", "gate")  # of an earlier run
    run = change(one, "mig", **gate)
    assert run.status == 0, run.text
    log = one.log("n1")
    assert log[log.index("mig present") - 1 :] == [
        "accept",
        "mig present",
        *AFTER,
        "drain uncordoned",
    ]
    assert one.node("n1")["tests"] == ["when_needed", "when_needed"]
    assert change(one, UPGRADE, **gate).status == 0
    assert len(one.node("n1")["tests"]) == 3


def test_layout_that_is_made_again_after_an_upgrade_comes_after_the_test(one: Scene) -> None:
    run = change(one, UPGRADE, accept_after=["driver_upgrade"], mig_config={"version": "v1"})
    assert run.status == 0, run.text
    log = one.log("n1")
    assert log[log.index("nvidia_driver present") + 1 :] == [
        "accept",
        "mig present",
        *AFTER,
        "drain uncordoned",
    ]


@pytest.mark.parametrize("verdict", ["failed", "incomplete"])
def test_node_without_a_gate_stays_out_with_one_gpu_that_has_not_passed(
    one: Scene, verdict: str
) -> None:
    fail(one, verdict)
    run = change(one, UPGRADE, accept_after=["driver_upgrade"])
    assert run.status == 2, run.text
    assert f"upgrade_driver: n1: accept: not accepted: GPU {BAD}. Next step: " in run.text
    assert not in_service(one)
    one.become("n1", rows=[])
    again = change(one, UPGRADE, accept_after=["driver_upgrade"])
    assert again.status == 0, again.text
    assert in_service(one)


def test_gate_of_the_whole_node_keeps_it_out(one: Scene) -> None:
    fail(one)
    run = change(one, UPGRADE, gpu_nodes_gate=True, accept_scope="node")
    assert run.status == 2, run.text
    assert f"upgrade_driver: n1: accept: GPU {BAD}: not accepted. Next step: " in run.text
    assert not in_service(one)
    assert "validate" not in one.log("n1")


def test_gate_of_gpus_lets_the_node_back_with_the_others_and_the_run_fails(one: Scene) -> None:
    fail(one)
    run = change(one, UPGRADE, gpu_nodes_gate=True)
    assert run.status == 2, run.text
    assert f"the gate holds GPUs back: GPU {BAD}: not accepted. The change is complete" in run.text
    assert in_service(one)
    assert one.log("n1")[-2:] == ["validate", "drain uncordoned"]


def test_another_fault_keeps_a_node_out_whose_gate_holds_a_gpu(one: Scene) -> None:
    fail(one)
    one.become("n1", failed_checks=["pods"])
    run = change(one, UPGRADE, gpu_nodes_gate=True)
    assert run.status == 2, run.text
    assert "the node stays out of service" in run.text.lower()
    assert not in_service(one)


def test_run_that_is_killed_in_the_test_gives_nothing_back_and_is_finished(one: Scene) -> None:
    one.write(
        nvidia_driver_version="580",
        gpu_nodes_kubeconfig="cluster.conf",
        gpu_nodes_hooks_after=[one.hook("resumed")],
        accept_after=["driver_upgrade"],
    )
    one.play(UPGRADE, cut_off_at="Generate the CDI specification")
    assert one.log("n1")[-1] == "accept"
    assert not in_service(one)
    run = one.play(UPGRADE)
    assert run.status == 0, run.text
    assert in_service(one)


def test_change_that_is_not_known_is_refused(one: Scene) -> None:
    run = change(one, UPGRADE, accept_after=["driver"])
    assert run.status == 2
    assert "accept_after" in run.text
    assert one.log("n1") == []
