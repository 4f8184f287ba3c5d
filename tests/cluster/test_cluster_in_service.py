# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node of a genuine cluster is changed in service: drained, changed, validated and given back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.cluster import IMAGE
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.conftest import MakeCluster

HALVES, SMALL = (
    {"devices": [1], "mig-enabled": True, "mig-devices": devices}
    for devices in ({"3g.40gb": 2}, {"1g.10gb": 7})
)


def deploy(cluster: Cluster) -> None:
    """Make a Deployment whose one pod has a whole GPU, and which ends as soon as it is asked to."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    labels = {"app": "work"}
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "replicas": 1}
    spec["template"] = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    name = {"name": "work"}
    cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": name, "spec": spec})


def running(cluster: Cluster) -> list[str]:
    """Return the UIDs of the Deployment's pods that run."""
    found = cluster.get("pods", "--selector=app=work")
    alive = [one for one in found if "deletionTimestamp" not in one["metadata"]]
    return [one["metadata"]["uid"] for one in alive if one["status"]["phase"] == "Running"]


def service(cluster: Cluster) -> tuple[bool, list[str]]:
    """Return whether the node is cordoned, and which of our annotations it has."""
    node = cluster.get("node", cluster.node.name)
    notes = node["metadata"].get("annotations", {})
    ours = [one for one in ("gpu.node/cordoned", "gpu.node/failed") if one in notes]
    return bool(node["spec"].get("unschedulable")), ours


def test_a_layout_is_changed_under_genuine_pods(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster("in-service", "h100-80", 2, mig_config=[HALVES])
    node = cluster.node
    cluster.join()
    up = node.play()
    assert up.ok, up.message()
    cluster.wait(gpu=1, **{"mig_3g.40gb": 2})
    deploy(cluster)
    eventually(lambda: len(running(cluster)), 1)
    (before,) = running(cluster)
    cluster.pod("bare", **{"mig-3g.40gb": 1})
    access = tmp_path / "admin.conf"
    access.write_text(node.run("cat", "/etc/kubernetes/admin.conf"))
    change = {"mig_config": [SMALL], "gpu_nodes_kubeconfig": str(access)}

    # What can't be is refused before the node is cordoned.
    wrong = {**SMALL, "mig-devices": {"3g.40gb": 3}}
    refused = node.play("gpu.node.mig", **{**change, "mig_config": [wrong]})
    assert not refused.ok
    assert service(cluster) == (False, [])
    assert running(cluster) == [before]

    # Nothing brings a bare pod back: it is not deleted, and the node is as it was.
    stopped = node.play("gpu.node.mig", **change)
    assert not stopped.ok
    assert "default/bare" in stopped.message()
    assert cluster.phase("bare") == "Running"
    assert running(cluster) == [before]
    assert cluster.allocatable() == {"gpu": 1, "mig-3g.40gb": 2}

    cluster.end("bare")
    done = node.play("gpu.node.mig", **change)
    assert done.ok, done.message()
    assert service(cluster) == (False, [])
    cluster.wait(gpu=1, **{"mig_1g.10gb": 7})
    eventually(lambda: len(running(cluster)), 1)
    (after,) = running(cluster)
    assert after != before
    cluster.pod("small", **{"mig-1g.10gb": 1})

    junit = tmp_path / "junit.xml"
    tries = {"gpu_nodes_pod_image": IMAGE, "gpu_nodes_pod_command": ["sh", "-c", "exit 0"]}
    proven = node.play("gpu.node.validate", validate_junit_path=str(junit), **change, **tries)
    assert proven.ok, proven.message()
    assert 'name="pod with nvidia.com/mig-1g.10gb"' in junit.read_text()

    same = node.play("gpu.node.mig", **change)
    assert same.ok, same.message()
    assert same.changed() == []
    assert running(cluster) == [after]
    assert cluster.phase("small") == "Running"
