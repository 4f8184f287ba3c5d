# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Hooks are found where their users put them, and refused before anything is touched where they are not."""

from __future__ import annotations

from pathlib import Path

from tests.machine.playbooks.conftest import MakeScene
from tests.machine.playbooks.scene import Scene

BEFORE, AFTER = "gpu_nodes_hooks_before", "nvidia_driver_hooks_after"
AT_ONCE = {"nvidia_driver_version": "580", "gpu_nodes_serial": "100%"}


def test_hooks_are_found_beside_the_playbook_the_inventory_where_ansible_started_and_by_paths(
    scene: MakeScene, tmp_path: Path
) -> None:
    nodes = scene("n1", "n2", "n3", "absolute")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    folders = {"n1": nodes.playbooks, "n2": nodes.inventory, "n3": nodes.folder}
    hosts = {name: {BEFORE: [nodes.hook(name, folder)]} for name, folder in folders.items()}
    hosts["absolute"] = {BEFORE: [str(elsewhere / nodes.hook("absolute", elsewhere))]}
    nodes.write(hosts, **AT_ONCE)
    run = nodes.play("upgrade_driver")
    assert run.status == 0, run.text
    assert {name: nodes.hooks(name) for name in nodes.names} == {
        name: [name] for name in nodes.names
    }


def test_bad_hooks_are_refused_before_the_plan(scene: MakeScene) -> None:
    nodes = scene("good", "text", "missing", "path", "after")
    hosts = {
        "text": {BEFORE: "drain.yml"},
        "missing": {BEFORE: ["no.yml"]},
        "path": {BEFORE: ["/no/such.yml"]},
        "after": {AFTER: ["no.yml"]},
    }
    nodes.write(hosts, **AT_ONCE)
    run = nodes.play("upgrade_driver")
    assert run.status == 2
    looked = (
        f"'no.yml' was not found: looked in {nodes.playbooks}, {nodes.inventory}, {nodes.folder}, "
    )
    for said in (
        f"text: {BEFORE}: 'drain.yml' is not valid: expected a list of task files",
        f"missing: {BEFORE}: {looked}",
        f"path: {BEFORE}: '/no/such.yml' was not found. Next step: correct the path",
        f"after: {AFTER}: {looked}",
    ):
        assert f"variables: {said}" in run.text
    assert [nodes.log(name) for name in nodes.names] == [[]] * 5


def test_a_failure_runs_its_hooks_and_says_what_did_not_run(one: Scene) -> None:
    one.become("n1", fails={"validate": "the device plugin is not serving"})
    one.write(
        nvidia_driver_version="580",
        gpu_nodes_hooks_before=[one.hook("before")],
        gpu_nodes_hooks_failed=[one.hook("failed")],
        gpu_nodes_hooks_after=[one.hook("after")],
    )
    run = one.play("upgrade_driver")
    assert run.status == 2, run.text
    assert one.hooks("n1") == ["before", "failed"]
    assert (
        "the device plugin is not serving. The node stays out of service, as the hooks left it"
        in run.text
    )
    one.become("n1", fails={})
    assert one.play("upgrade_driver").status == 0
    assert one.hooks("n1") == ["before", "failed", "before", "after"]


def test_a_hook_that_fails_is_named(one: Scene) -> None:
    path = one.playbooks / "full.yml"
    path.write_text("- name: Drain\n  ansible.builtin.fail:\n    msg: the queue is full\n")
    one.write(
        nvidia_driver_version="580",
        gpu_nodes_hooks_before=["full.yml"],
        gpu_nodes_hooks_failed=["full.yml"],
    )
    run = one.play("upgrade_driver")
    assert run.status == 2
    assert "upgrade_driver: n1: the queue is full. The node stays out of service" in run.text
    assert "gpu_nodes_hooks_failed: n1: the queue is full" in run.text
    assert one.node("n1")["nvidia_driver"] == "550"
