# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The task files of the role common: on the controller, whatever a node's connection and Python are."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.kubernetes.standin_cluster import Cluster
from tests.support.paths import REPOSITORY
from tests.support.waiting import LIMIT

Play = Callable[..., tuple[dict[str, Any], str]]
PREVIEW = ", previewed"
HOOKS = REPOSITORY / "playbooks/hooks"
NOWHERE = {
    "ansible_connection": "ssh",
    "ansible_host": "192.0.2.1",
    "ansible_python_interpreter": "/nowhere/python",
    "ansible_become_password": "x",
}
# What a user may have for the controller itself, which is not for us.
LOCALHOST = {
    "ansible_connection": "ssh",
    "ansible_python_interpreter": "/nowhere/python",
    "ansible_become": True,
    "ansible_become_user": "nobody",  # from root to root there is nothing to do
    "ansible_become_exe": "/nowhere/sudo",
}


def task(name: str) -> dict[str, Any]:
    """Return the task that includes a hook, or a task file of the role."""
    if name.startswith("kubernetes_"):
        return {"ansible.builtin.include_tasks": str(HOOKS / f"{name}.yml")}
    preview = {"apply": {"check_mode": True}} if name.endswith(PREVIEW) else {}
    file = name.removesuffix(PREVIEW)
    return {
        "ansible.builtin.include_role": {"name": "gpu.node.common", "tasks_from": file, **preview}
    }


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Return a function that runs task files on node-1; it returns their results and all that was said."""
    folder = tmp_path / "playbooks"
    folder.mkdir()
    hosts = {"node-1": NOWHERE, "localhost": LOCALHOST}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))

    def run(*files: str, **variables: Any) -> tuple[dict[str, Any], str]:
        results = tmp_path / "results.json"
        tasks = [task(one) for one in files]
        kept = {
            name: f"{{{{ __common_{name} | default({{}}) }}}}"
            for name in ("drained", "cordoned", "uncordoned", "held", "admitted")
        }
        copy = {"dest": str(results), "content": "{{ kept | to_json }}", "mode": "0644"}
        tasks.append(
            {
                "ansible.builtin.copy": copy,
                "vars": {"kept": kept, "ansible_connection": "local", "ansible_become": False}
                | {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
                "delegate_to": "localhost",
                "become": False,
            }
        )
        one = {"hosts": "node-1", "gather_facts": False, "become": True, "tasks": tasks}
        (folder / "play.json").write_text(json.dumps([one]))
        words = ["-i", "hosts.json", "playbooks/play.json", "-e", json.dumps(variables)]
        done = subprocess.run(
            ["ansible-playbook", *words],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        found = json.loads(results.read_text()) if results.exists() else {}
        return found, done.stdout + done.stderr

    return run


def test_a_node_is_drained_from_the_controller(cluster: Cluster, play: Play) -> None:
    cluster.add_pod("train", gpus=1)
    cluster.add_pod("web", spec={"volumes": [{"name": "scratch", "emptyDir": {}}]})
    found, said = play(
        "drain",
        "cordon_failed",
        gpu_nodes_kubeconfig="admin.conf",  # in the folder that Ansible is started in
        gpu_nodes_drain_pods="all",
        gpu_nodes_drain_emptydir="delete",
        gpu_nodes_drain_reason="driver upgrade",
        gpu_nodes_failure="the driver does not load",
    )
    assert found["drained"]["evicted"] == ["default/train", "default/web"], said
    assert cluster.evictions[0]["gracePeriodSeconds"] == 300
    assert cluster.annotations()["gpu.node/cordoned"].endswith(": driver upgrade")
    assert cluster.annotations()["gpu.node/failed"].endswith(" the driver does not load")
    found, said = play("uncordon", gpu_nodes_kubeconfig=str(cluster.kubeconfig))
    assert found["uncordoned"]["changed"], said
    assert not cluster.cordoned()
    assert cluster.annotations() == {}


@pytest.mark.long
def test_a_drain_that_would_be_refused_is_so_in_its_preview(cluster: Cluster, play: Play) -> None:
    cluster.add_pod("train", gpus=1)
    found, said = play(f"drain{PREVIEW}", gpu_nodes_kubeconfig="admin.conf")
    assert found["drained"]["evicted"] == ["default/train"], said
    cluster.add_pod("alone", controller="", gpus=1)
    _found, said = play(f"drain{PREVIEW}", gpu_nodes_kubeconfig="admin.conf")
    assert "default/alone has no controller" in said
    assert cluster.changes() == []


@pytest.mark.long
def test_the_hooks_do_the_same_in_a_playbook_of_one_s_own(cluster: Cluster, play: Play) -> None:
    cluster.add_pod("train", gpus=1)
    access = {"gpu_nodes_kubeconfig": "admin.conf"}
    found, said = play("kubernetes_drain", **access)
    assert found["drained"]["evicted"] == ["default/train"], said
    found, said = play("kubernetes_uncordon", **access)
    assert found["uncordoned"]["changed"], said
    _found, said = play("kubernetes_drain")
    assert "gpu_nodes_kubeconfig is empty, so that the node can't be drained" in said
    assert not cluster.cordoned()


def test_a_name_of_its_own_in_the_cluster_is_taken(cluster: Cluster, play: Play) -> None:
    access = {"gpu_nodes_kubeconfig": "/nowhere.conf:admin.conf", "gpu_nodes_context": "here"}
    found, said = play("drain", gpu_nodes_node_name="node-2", **access)
    assert found["drained"]["node"] == "node-2", said
    assert cluster.cordoned("node-2")
    assert not cluster.cordoned("node-1")


def test_without_a_kubeconfig_nothing_is_asked(cluster: Cluster, play: Play) -> None:
    files = ("drain", "cordon_failed", "uncordon", "hold_node", "admit_node")
    found, said = play(*files, gpu_nodes_failure="it broke")
    assert "failed=0" in said
    assert [one["skipped"] for one in found.values()] == [True] * len(files)
    assert cluster.requests == []


@pytest.mark.parametrize(
    ("name", "value"), [("gpu_nodes_drain_pods", "some"), ("gpu_nodes_drain_timeout", "6m")]
)
def test_a_bad_value_is_refused_by_its_name(play: Play, name: str, value: str) -> None:
    _found, said = play("drain", gpu_nodes_kubeconfig="admin.conf", **{name: value})
    assert "failed=1" in said
    assert name in said


def test_task_files_hold_and_admit_a_node(cluster: Cluster, play: Play) -> None:
    access = {"gpu_nodes_kubeconfig": str(cluster.kubeconfig)}
    results, output = play("hold_node", **access)
    assert results["held"]["held"], output
    assert cluster.nodes["node-1"]["spec"]["taints"] == [
        {"key": "gpu.node/not-accepted", "effect": "NoSchedule"}
    ]
    results, output = play("hold_node", "admit_node", **access)
    assert not results["held"]["changed"], output
    assert results["admitted"]["changed"]
    assert not cluster.nodes["node-1"]["spec"].get("taints")
    results, output = play("hold_node", **access, gpu_nodes_node_name="gpu-9")
    assert not results["held"]["joined"], output
