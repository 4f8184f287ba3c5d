# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A pod with each resource, through a stand-in API server and the genuine client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.client import KubernetesApi

from tests.fakes.kubernetes.standin_cluster import Cluster

Validate = Callable[..., dict[str, Any]]
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


@pytest.fixture(autouse=True)
def offers(cluster: Cluster) -> None:
    """Have the node offer two GPUs and a MIG device."""
    offered = {"cpu": "8", GPU: "2", MIG: "1", "nvidia.com/mig-2g.20gb": "0"}
    cluster.nodes["node-1"]["status"] = {"allocatable": offered}


def states(answer: dict[str, Any]) -> dict[str, str]:
    """Return the state of each check."""
    return {one["name"].removeprefix("pod with "): one["state"] for one in answer["checks"]}


def test_a_pod_with_each_resource_is_run_and_removed(cluster: Cluster, validate: Validate) -> None:
    cluster.patch_node("node-1", {"spec": {"unschedulable": True}}, "gpu-node-drain")
    done = validate()
    assert states(done) == {GPU: "passed", MIG: "passed"}, done
    assert not done["changed"]
    assert done["allocatable"] == {GPU: 2, MIG: 1}
    assert cluster.pods == {}
    for pod, resource in zip(cluster.made, (GPU, MIG), strict=True):
        [container] = pod["spec"]["containers"]
        assert container["resources"]["limits"][resource] == 1
        assert {"cpu", "memory"} < {*container["resources"]["limits"]}
        assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]
        required = pod["spec"]["affinity"]["nodeAffinity"]
        assert '"node-1"' in json.dumps(required)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {
                "phase": "Pending",
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/2 nodes are available: 1 Insufficient nvidia.com/gpu.",
                    }
                ],
            },
            "Unschedulable, 0/2 nodes are available: 1 Insufficient nvidia.com/gpu",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [
                    {
                        "state": {
                            "waiting": {
                                "reason": "CreateContainerError",
                                "message": "unresolvable CDI devices",
                            }
                        }
                    }
                ],
            },
            "CreateContainerError, unresolvable CDI devices",
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {
                        "state": {
                            "terminated": {"reason": "Error", "exitCode": 9, "message": "no GPU"}
                        }
                    }
                ],
            },
            "Error, exit code 9, no GPU",
        ),
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"},
            "UnexpectedAdmissionError, Allocate failed",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
            },
            "it is Pending",
        ),
    ],
)
def test_why_a_pod_does_not_run_is_said(
    cluster: Cluster, validate: Validate, status: dict[str, Any], said: str
) -> None:
    cluster.fates[GPU] = status
    failed = validate(timeout=1)
    assert f"pod with {GPU}: {said}" in failed["msg"]
    assert states(failed) == {GPU: "failed", MIG: "passed"}
    assert failed["failed_checks"] == [f"pod with {GPU}"]
    assert cluster.pods == {}
    assert validate(timeout=1, fail=False)["failed_checks"] == [f"pod with {GPU}"]


def test_a_command_has_to_end_well(cluster: Cluster, validate: Validate) -> None:
    cluster.fates[MIG] = {"phase": "Succeeded"}
    failed = validate(timeout=1, command=["nvidia-smi", "-L"])
    assert states(failed) == {GPU: "failed", MIG: "passed"}
    assert "it is Running" in failed["msg"]
    assert cluster.made[0]["spec"]["containers"][0]["command"] == ["nvidia-smi", "-L"]


def test_what_pods_have_is_left_to_them(cluster: Cluster, validate: Validate) -> None:
    cluster.add_pod("a", gpus=1)
    cluster.add_pod("b", gpus=1)
    cluster.add_pod("done", gpus=1, status={"phase": "Succeeded"})
    done = validate()
    assert states(done) == {GPU: "skipped", MIG: "passed"}
    assert "pods have all 2 of it" in json.dumps(done["checks"])
    assert len(cluster.pods) == 3


def test_check_mode_makes_no_pod(cluster: Cluster, validate: Validate) -> None:
    assert states(validate(check=True)) == {GPU: "skipped", MIG: "skipped"}
    assert cluster.changes() == []


def test_a_node_that_offers_nothing_fails(cluster: Cluster, validate: Validate) -> None:
    cluster.nodes["node-1"]["status"] = {"allocatable": {"cpu": "8", GPU: "0"}}
    assert "the node has no resource of NVIDIA's allocatable" in validate()["msg"]


def test_what_a_killed_run_left_is_removed(
    cluster: Cluster, validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(KubernetesApi, "delete_pod", lambda *_words: None)
        validate()
    left = dict(cluster.pods)
    assert len(left) == 2
    cluster.add_pod("theirs", meta={"labels": {"app.kubernetes.io/created-by": "x"}})
    another = {
        **next(iter(left.values()))["metadata"],
        "annotations": {"gpu.node/validates": "node-2"},
    }
    cluster.add_pod("another", meta={**another, "name": "another", "uid": "2"})
    validate()
    assert sorted(cluster.pods) == ["default/another", "default/theirs"]


def test_missing_rights_are_refused_before_a_pod_is_made(
    cluster: Cluster, validate: Validate
) -> None:
    cluster.allows = lambda verb, resource: (verb, resource) != ("create", "pods")
    assert validate()["missing_rights"] == ["create pods in namespace default"]
    assert cluster.made == []


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("image", "", "image (gpu_nodes_pod_image)"),
        ("timeout", 0, "timeout (gpu_nodes_pod_timeout)"),
        ("node", "nod-1", "node (gpu_nodes_node_name): 'nod-1' is not valid"),
    ],
)
def test_a_bad_value_is_named_by_its_variable(
    validate: Validate, option: str, value: object, named: str
) -> None:
    assert named in validate(**{option: value})["msg"]
