# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Cordon, drain and pods that try a node, against genuine Kubernetes, from a controller outside.

It has the rights of the manifest alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.cluster import IMAGE, Cluster
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

ROOT = REPOSITORY
MANIFEST = ROOT / "files/kubernetes/drain-rbac.yaml"
SECONDS = 600  # for what ends much sooner
GATE = "/run/gate"  # of the node; a pod that waits for it goes on once it is open
WAIT = "until [ -e /gate/open ]; do sleep 0.2; done"
Json = dict[str, Any]
Drain = Callable[..., Json]


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """A cluster of one node with GPUs that nobody asks for what they are."""
    found = make_cluster("drain", "a100-40", 1)
    found.join()
    patch = json.dumps({"status": {"capacity": {"nvidia.com/gpu": "8"}}})
    words = ("--subresource=status", "--type=merge", f"--patch={patch}")
    found.kubectl("patch", "node", found.node.name, *words)
    found.wait(gpu=8)
    for one in yaml.safe_load(MANIFEST.read_text())["items"]:
        found.apply(one)
    return found


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The access of the manifest's ServiceAccount."""
    access = yaml.safe_load(cluster.node.run("cat", "/etc/kubernetes/admin.conf"))
    token = cluster.kubectl("-n", "kube-system", "create", "token", "gpu-node-drain").strip()
    access["users"][0]["user"] = {"token": token}
    path = tmp_path_factory.mktemp("access") / "drain.conf"
    path.write_text(yaml.safe_dump(access))
    return path


@pytest.fixture
def drain(cluster: Cluster, kubeconfig: Path, tmp_path: Path) -> Drain:
    """Return a function that runs the module, or another one, and returns its answer."""

    def run(name: str = "drain", *, check: bool = False, **options: Any) -> Json:
        given = {"node": cluster.node.name, "kubeconfig": str(kubeconfig)}
        given |= {"retries": 0} if name == "drain" else {}
        told = {"_ansible_check_mode": check, "_ansible_remote_tmp": str(tmp_path)}
        path = tmp_path / "arguments.json"
        path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": {**given, **options, **told}}))
        module = f"ansible_collections.gpu.node.plugins.modules.{name}"
        words = [sys.executable, "-m", module, str(path)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert done.stdout, done.stderr
        answer: Json = json.loads(done.stdout)
        return answer

    return run


@pytest.fixture(autouse=True)
def emptied(cluster: Cluster) -> Iterator[None]:
    """Leave the node as it was."""
    cluster.node.run("mkdir", "--parents", GATE)
    yield
    open_gate(cluster)
    kinds = "deployments,daemonsets,jobs,pods,poddisruptionbudgets"
    cluster.kubectl("delete", kinds, "--all", "--wait=true", "--now")
    cluster.kubectl("uncordon", cluster.node.name)
    for name in ("cordoned", "failed"):
        cluster.kubectl("annotate", "node", cluster.node.name, f"gpu.node/{name}-")
    cluster.node.run("rm", "--recursive", GATE)


def open_gate(cluster: Cluster) -> None:
    """Let go on what waits for it."""
    cluster.node.run("touch", f"{GATE}/open")


def template(command: str = "exec sleep infinity", gpus: int = 1, **spec: Any) -> Json:
    """Return what pods are made from; they end as soon as they are asked to."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"trap 'exit 0' TERM; {command} & wait"],
        "resources": {"limits": {"nvidia.com/gpu": gpus}} if gpus else {},
        "volumeMounts": [{"name": "gate", "mountPath": "/gate"}],
    }
    volumes = [{"name": "gate", "hostPath": {"path": GATE}}]
    made = {"containers": [container], "volumes": volumes, **spec}
    return {"metadata": {"labels": {"app": "x"}}, "spec": made}


def make(cluster: Cluster, kind: str, name: str, **spec: Any) -> None:
    """Make an object whose pods come from a template."""
    group = "batch/v1" if kind == "Job" else "apps/v1"
    if kind != "Job":
        spec["selector"] = {"matchLabels": {"app": "x"}}
    cluster.apply({"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec})


def make_budget(cluster: Cluster, name: str, least: int) -> None:
    """Make a disruption budget, and wait until the controller has counted the pods."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "x"}}},
    }
    cluster.apply(budget)
    eventually(lambda: cluster.get("pdb", name)["status"].get("currentHealthy"), least)


def running(cluster: Cluster, count: int) -> list[str]:
    """Wait until so many pods run, and return their names."""
    eventually(lambda: sorted(cluster.phases().values()), ["Running"] * count)
    return sorted(f"default/{name}" for name in cluster.phases())


def node(cluster: Cluster) -> Json:
    """Return the node's object."""
    found: Json = cluster.get("node", cluster.node.name)
    return found


def test_a_budget_is_respected_and_the_node_given_back(cluster: Cluster, drain: Drain) -> None:
    make(cluster, "Deployment", "serve", replicas=2, template=template())
    pods = running(cluster, 2)
    make_budget(cluster, "both", 2)
    assert drain(check=True)["evicted"] == pods
    failed = drain(timeout=3, reason="driver upgrade")
    assert failed["evicted"] == [], failed
    assert [one["pod"] for one in failed["blocked"]] == pods
    assert "The disruption budget both needs 2 healthy pods" in failed["msg"]
    assert running(cluster, 2) == pods
    assert node(cluster)["spec"]["unschedulable"]
    assert node(cluster)["metadata"]["annotations"]["gpu.node/cordoned"].endswith("driver upgrade")
    cluster.kubectl("delete", "pdb", "both")
    done = drain(timeout=SECONDS)
    assert (done.get("evicted"), done["cordoned_by_us"]) == (pods, True), done
    assert not drain()["changed"]
    assert sorted(cluster.phases().values()) == [
        "Pending",
        "Pending",
    ]  # made again, and nowhere to go
    assert drain(state="uncordoned")["changed"]
    assert "unschedulable" not in node(cluster)["spec"]
    running(cluster, 2)


def test_a_bare_pod_is_refused_before_anything_changes(cluster: Cluster, drain: Drain) -> None:
    cluster.begin("alone", gpu=1)
    running(cluster, 1)
    before = node(cluster)["metadata"].get("annotations", {})
    refused = drain()
    assert refused["blocked"] == [
        {"pod": "default/alone", "reason": "has no controller that makes it again"}
    ]
    assert "unschedulable" not in node(cluster)["spec"]
    assert node(cluster)["metadata"].get("annotations", {}) == before
    done = drain(bare_pods="delete", grace_period=1, timeout=SECONDS)
    assert (done.get("evicted"), done["changed"]) == (["default/alone"], True), done
    eventually(lambda: cluster.phases() == {})  # a pod that has ended may stay for a moment


def test_a_daemonset_that_holds_a_gpu_stays_and_is_named(cluster: Cluster, drain: Drain) -> None:
    make(cluster, "DaemonSet", "exporter", template=template())
    [pod] = running(cluster, 1)
    done = drain(pods="all")
    assert done["evicted"] == []
    gpus = ["nvidia.com/gpu: 1"]
    assert done["left"] == [{"pod": pod, "reason": "DaemonSet", "gpus": gpus, "opens": False}]
    assert f"{pod} (nvidia.com/gpu: 1)" in json.dumps(done["warnings"])
    assert running(cluster, 1) == [pod]


def test_a_job_finishes_first(cluster: Cluster, drain: Drain) -> None:
    make(cluster, "Job", "count", template=template(WAIT, restartPolicy="Never"))
    [pod] = running(cluster, 1)
    with ThreadPoolExecutor(1) as beside:
        draining = beside.submit(drain, wait_for_jobs=SECONDS)
        eventually(lambda: node(cluster)["spec"].get("unschedulable"))
        assert running(cluster, 1) == [pod]
        open_gate(cluster)
        done = draining.result()
    assert (done.get("waited"), done.get("evicted")) == ([pod], []), done
    assert cluster.phases() == {pod.partition("/")[2]: "Succeeded"}


def test_a_pod_that_takes_its_time_is_named_and_then_gone(cluster: Cluster, drain: Drain) -> None:
    slow = template(terminationGracePeriodSeconds=600)
    slow["spec"]["containers"][0]["command"][2] = (
        f"trap '{WAIT}; exit 0' TERM; sleep infinity & wait"
    )
    make(cluster, "Deployment", "slow", replicas=1, template=slow)
    [pod] = running(cluster, 1)
    failed = drain(timeout=2, grace_period=600)
    assert failed["evicted"] == [pod], failed
    assert failed["blocked"] == [
        {"pod": pod, "reason": "was asked to end, and the kubelet has not ended it yet"}
    ]
    open_gate(cluster)
    done = drain(timeout=SECONDS)
    assert not done["changed"], done
    eventually(lambda: pod.partition("/")[2] not in cluster.phases())  # it has ended, and goes


def test_who_cordoned_the_node_is_known_from_its_fields(cluster: Cluster, drain: Drain) -> None:
    assert drain(state="cordoned")["cordoned_by_us"]
    cluster.kubectl("uncordon", cluster.node.name)
    cluster.kubectl("cordon", cluster.node.name)
    assert "gpu.node/cordoned" in node(cluster)["metadata"]["annotations"]
    back = drain(state="uncordoned")
    assert (back["cordoned"], back["cordoned_by_us"]) == (True, False)
    assert node(cluster)["spec"]["unschedulable"]


def test_a_pod_with_each_resource_is_run_on_a_cordoned_node(cluster: Cluster, drain: Drain) -> None:
    drain(state="cordoned")
    check = "pod with nvidia.com/gpu"
    options = {"image": IMAGE, "timeout": SECONDS}
    done = drain("validate_pods", command=["sh", "-c", "exit 0"], **options)
    assert [(one["name"], one["state"]) for one in done["checks"]] == [(check, "passed")], done
    eventually(lambda: cluster.phases() == {})  # a pod that has ended may stay for a moment
    failed = drain("validate_pods", command=["sh", "-c", "exit 3"], **options)
    assert f"{check}: Error, exit code 3" in failed["msg"]
    nowhere = drain("validate_pods", image="localhost/nothing:1", timeout=15)
    assert f"{check}: ErrImagePull" in nowhere["msg"] or "ImagePullBackOff" in nowhere["msg"]
    drain(state="uncordoned")
    make(cluster, "Deployment", "serve", replicas=1, template=template(gpus=8))
    pods = running(cluster, 1)
    skipped = drain("validate_pods", **options)
    assert [one["state"] for one in skipped["checks"]] == ["skipped"]
    assert running(cluster, 1) == pods


def test_the_rights_of_the_manifest_are_needed_and_suffice(cluster: Cluster, drain: Drain) -> None:
    manifest = yaml.safe_load(MANIFEST.read_text())["items"]
    [role] = [one for one in manifest if one["kind"] == "ClusterRole"]
    fewer = [one for one in role["rules"] if "pods/eviction" not in one["resources"]]
    cluster.apply({**role, "rules": fewer})
    try:
        eventually(lambda: drain(check=True).get("missing_rights"), ["create pods/eviction"])
        assert "unschedulable" not in node(cluster)["spec"]
    finally:
        cluster.apply(role)
    eventually(lambda: drain(check=True).get("failed", False), False)
    assert f"near it are {cluster.node.name}" in drain(node=f"{cluster.node.name}x")["msg"]
