# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One node in service is changed: what is done in which order, and what the next run makes of one that was cut off."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.role_config import all_whole

from tests.machine.playbooks.conftest import MakeScene
from tests.machine.playbooks.scene import Scene, imported

UPGRADE = "upgrade_driver"
AT_ONCE = {"gpu_nodes_serial": "100%"}
CONFIGS = {"small": {"version": "v1"}}
WHOLE = [
    "nvidia_driver present check",
    "device_plugin stopped",
    "nvidia_driver present",
    "cdi present",
    "device_plugin started",
    "validate",
]


def test_a_change_goes_through_all_steps_and_then_needs_nothing(one: Scene) -> None:
    hooks = {
        "gpu_nodes_hooks_before": [one.hook("cordon")],
        "nvidia_driver_hooks_before": [one.hook("dcgm-off")],
        "nvidia_driver_hooks_after": [one.hook("dcgm-on")],
        "gpu_nodes_hooks_after": [one.hook("uncordon")],
    }
    one.write(nvidia_driver_version="580", **hooks)
    run = one.play(UPGRADE)
    assert run.status == 0, run.text
    assert one.log("n1") == WHOLE
    assert one.hooks("n1") == ["cordon", "dcgm-off", "dcgm-on", "uncordon"]
    order = [
        "Plan the driver",
        "Mark the change as begun",
        "Cordon and drain",
        "Stop advertising GPUs",
    ]
    order += [
        "Driver",
        "Bring back what was there",
        "Validation",
        "Uncordon",
        "Mark the change as done",
    ]
    assert [task for task in run.tasks if task in order] == order
    assert not one.marker("n1").exists()

    same = one.play(UPGRADE)
    assert same.status == 0, same.text
    assert "changed=0" in same.text
    assert one.log("n1") == [*WHOLE, WHOLE[0]]
    assert len(one.hooks("n1")) == 4


def test_labels_and_configurations_come_back_after_a_refusal_too(scene: MakeScene) -> None:
    nodes = scene("busy", "broken")
    nodes.write(nvidia_driver_version="580", device_plugin_configs=CONFIGS, **AT_ONCE)
    nodes.become("busy", users=["4711 (python3)"])
    nodes.become("broken", fails={"nvidia_driver present": "apt failed"})
    refused = nodes.play(UPGRADE)
    assert refused.status == 2, refused.text
    for name in nodes.names:
        assert nodes.node(name)["device_plugin"] == ["started", "api", all_whole(CONFIGS)]
        assert nodes.node(name)["nvidia_driver"] == "550"
        nodes.become(name, users=[], fails={})
    run = nodes.play(UPGRADE, imported("mig", mig_selected="half"))
    assert run.status == 0, run.text
    for name in nodes.names:
        assert nodes.node(name)["device_plugin"] == ["started", "api", all_whole(CONFIGS)]
        assert (nodes.node(name)["nvidia_driver"], nodes.node(name)["mig"]) == ("580", "half")


def test_a_plan_that_is_refused_touches_nothing(one: Scene) -> None:
    hooks = {
        "gpu_nodes_hooks_before": [one.hook("before")],
        "gpu_nodes_hooks_failed": [one.hook("failed")],
    }
    one.write(nvidia_driver_version="999", **hooks)
    one.become("n1", fails={WHOLE[0]: "version: '999' is not valid"})
    run = one.play(UPGRADE)
    assert run.status == 2
    assert "upgrade_driver: n1: nothing was touched: version: '999' is not valid" in run.text
    assert one.log("n1") == WHOLE[:1]
    assert one.hooks("n1") == []
    assert not one.marker("n1").exists()


@pytest.mark.parametrize("options", [(), ("--check",)])
@pytest.mark.parametrize("change", ["mig", UPGRADE])
def test_a_change_is_refused_before_the_marker_where_nothing_frees_the_gpus(
    one: Scene, change: str, options: tuple[str, ...]
) -> None:
    one.become("n1", users=["pod default/trainer"])
    one.write(mig_selected="half", nvidia_driver_version="580")
    run = one.play(change, options=options)
    assert run.status == 2, run.text
    assert f"{change}: n1: nothing was touched: GPUs are in use by pod default/trainer" in run.text
    assert "Next step: set gpu_nodes_kubeconfig, or name tasks" in run.text
    assert not one.marker("n1").exists()


def test_a_layout_waits_for_users_where_it_is_to(one: Scene) -> None:
    one.become("n1", users=["pod default/trainer"])
    one.write(mig_selected="half", mig_on_busy="wait")
    run = one.play("mig")
    assert "nothing was touched" not in run.text


def test_a_layout_is_not_drained_for_where_nvml_does_not_answer(one: Scene) -> None:
    one.become("n1", nvml="the driver is not loaded")
    one.write(mig_selected="half", gpu_nodes_hooks_before=[one.hook("before")])
    run = one.play("mig")
    assert run.status == 2
    assert (
        "mig: n1: nothing was touched: mig: n1: the change can't be planned: the driver" in run.text
    )
    assert one.log("n1") == ["mig check"]
    assert one.hooks("n1") == []


def test_a_node_gets_no_part_that_it_never_had(one: Scene) -> None:
    for part in ("device_plugin", "cdi", "environment"):
        (one.folder / "n1" / part).unlink()
    one.write(nvidia_driver_version="580")
    run = one.play(UPGRADE)
    assert run.status == 0, run.text
    assert one.log("n1") == [WHOLE[0], WHOLE[2], "validate"]
    assert "pynvml" not in run.text


def test_a_node_without_a_gpu_is_left_alone(one: Scene) -> None:
    one.become("n1", gpus=0)
    one.write(nvidia_driver_version="580", mig_selected="half", gpu_nodes_reboot="always")
    run = one.play(UPGRADE, "mig", "reboot")
    assert run.status == 0, run.text
    assert run.text.count("has no NVIDIA GPU") == 3
    assert one.log("n1") == []


def test_markers_of_earlier_versions_are_taken_up(scene: MakeScene) -> None:
    older = scene("driver-upgrade", "mig-change")
    for name in older.names:
        (older.folder / name / name).touch()
    older.write(nvidia_driver_version="550", **AT_ONCE)
    run = older.play(UPGRADE)
    assert run.status == 0, run.text
    for name in older.names:
        assert "device_plugin started" in older.log(name)
        assert not (older.folder / name / name).exists()


def test_what_was_cut_off_is_taken_up_by_the_next_run_also_of_another_playbook(one: Scene) -> None:
    hooks = {name: [one.hook(name)] for name in ("gpu_nodes_hooks_before", "gpu_nodes_hooks_after")}
    one.write(nvidia_driver_version="580", mig_selected="half", **hooks)
    assert one.play(UPGRADE, cut_off_at="Driver").status < 0
    assert one.node("n1")["device_plugin"][0] == "stopped"
    assert one.marker("n1").exists()
    taken = one.play("reboot")
    assert taken.status == 0, taken.text
    assert one.node("n1")["device_plugin"][0] == "started"
    assert not one.marker("n1").exists()

    assert one.play(UPGRADE, cut_off_at="Uncordon").status < 0
    assert one.node("n1")["nvidia_driver"] == "580"
    finished = one.play(UPGRADE)
    assert finished.status == 0, finished.text
    assert "Uncordon" in finished.tasks
    assert not one.marker("n1").exists()
    assert one.hooks("n1")[-1] == "gpu_nodes_hooks_after"


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "begun"),
    [
        ("Mark the change as begun", False),
        ("Cordon and drain", True),
        ("Driver", True),
        ("Wait until the driver answers", True),
        ("Advertise the GPUs", True),
        ("Uncordon", True),
        ("Mark the change as done", True),
        ("Note that the node is done", False),
    ],
)
def test_killed_at_any_task_the_next_run_comes_to_the_same_end(
    one: Scene, task: str, begun: bool
) -> None:
    hooks = {
        "gpu_nodes_hooks_before": [one.hook("before")],
        "gpu_nodes_hooks_after": [one.hook("after")],
    }
    one.write(nvidia_driver_version="580", **hooks)
    killed = one.play(UPGRADE, cut_off_at=task)
    assert killed.status < 0, killed.text
    assert one.marker("n1").exists() == begun
    changed = one.node("n1")["nvidia_driver"] == "580"
    again = one.play(UPGRADE)
    assert again.status == 0, again.text
    node = one.node("n1")
    assert node["nvidia_driver"] == "580"
    assert node["device_plugin"] == ["started", "api", {}]
    assert not one.marker("n1").exists()
    assert one.hooks("n1")[-1] == "after"
    assert ("Uncordon" in again.tasks) == (begun or not changed)


def test_a_node_is_drained_before_it_changes_and_given_back_after(one: Scene) -> None:
    one.write(nvidia_driver_version="580", gpu_nodes_kubeconfig="cluster.conf")
    one.become("n1", fails={"drain drained": "the budget of default/web allows no eviction"})
    stuck = one.play(UPGRADE)
    assert stuck.status == 2, stuck.text
    looked = [WHOLE[0], "drain drained check"]
    assert one.log("n1") == [*looked, "drain drained", "device_plugin started", "drain cordoned"]
    assert one.node("n1")["drain"] == ["cordoned", "the budget of default/web allows no eviction"]
    assert "allows no eviction. The node stays out of service, as the drain left it" in stuck.text

    one.become("n1", fails={}, log=[])
    run = one.play(UPGRADE)
    assert run.status == 0, run.text
    assert one.log("n1") == [*looked, "drain drained", *WHOLE[1:], "drain uncordoned"]


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_a_drain_that_is_refused_is_refused_before_anything_is_touched(
    one: Scene, options: tuple[str, ...]
) -> None:
    hooks = {
        "gpu_nodes_hooks_before": [one.hook("before")],
        "gpu_nodes_hooks_failed": [one.hook("failed")],
    }
    one.write(nvidia_driver_version="580", gpu_nodes_kubeconfig="cluster.conf", **hooks)
    why = "pod team/train has an emptyDir. Next step: set gpu_nodes_drain_emptydir to delete"
    one.become("n1", fails={"drain drained check": why})
    run = one.play(UPGRADE, options=options)
    assert run.status == 2, run.text
    assert why in run.text
    assert one.log("n1")[-1] == "drain drained check"
    assert all(each.endswith(" check") for each in one.log("n1"))
    assert one.hooks("n1") == []
    assert not one.marker("n1").exists()
    assert "n1 failed and was not touched" in run.text


@pytest.mark.parametrize(
    ("playbook", "more", "pods"),
    [
        (UPGRADE, {}, "gpu"),
        ("reboot", {}, "all"),
        ("reboot", {"gpu_nodes_drain_pods": "gpu"}, "gpu"),
    ],
)
def test_a_reboot_drains_all_pods_unless_the_user_says_which(
    one: Scene, playbook: str, more: dict[str, str], pods: str
) -> None:
    """A node of this machine's own is not rebooted: Ansible refuses that, after the drain."""
    one.write(
        nvidia_driver_version="580",
        gpu_nodes_kubeconfig="cluster.conf",
        gpu_nodes_reboot="always",
        **more,
    )
    run = one.play(playbook)
    assert ("would reboot the control node" in run.text) is (playbook == "reboot")
    assert one.node("n1")["drains"] == pods


def test_a_node_that_does_not_come_back_is_told_of(one: Scene) -> None:
    hook = {"gpu_nodes_hooks_failed": [one.hook("failed")]}
    more = {"nvidia_driver_version": "580", "gpu_nodes_kubeconfig": "cluster.conf"}
    one.write({"n1": one.leaving("n1")}, **more, **hook)
    why = "the reboot command took too long"
    one.become(
        "n1", fails={"nvidia_driver present": why}, puts={"nvidia_driver present": {"gone": ""}}
    )
    run = one.play(UPGRADE)
    assert run.status == 2, run.text
    assert one.log("n1")[-2:] == ["nvidia_driver present", "drain cordoned"]
    assert one.node("n1")["drain"] == ["cordoned", "the reboot command took too long"]
    assert "n1: the device plugin was not given back: " in run.text
    assert "The node stays out of service, as the drain left it" in run.text


def test_the_cause_is_named_if_the_device_plugin_is_not_given_back(one: Scene) -> None:
    one.write(nvidia_driver_version="580")
    causes = {"nvidia_driver present": "no such version", "device_plugin started": "no wheelhouse"}
    one.become("n1", fails=causes)
    run = one.play(UPGRADE)
    assert run.status == 2, run.text
    assert "n1: the device plugin was not given back: no wheelhouse. Next step: " in run.text
    assert "advertises no GPUs" not in run.text
    assert "upgrade_driver: n1: no such version. The node stays out of service" in run.text
