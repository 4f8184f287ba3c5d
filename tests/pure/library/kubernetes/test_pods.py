# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is read of a pod as the API server shows it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cluster import pods


def shown(meta: Any = None, spec: Any = None, status: Any = None) -> dict[str, Any]:
    base = {"namespace": "default", "name": "a", "uid": "1"}
    return {
        "metadata": {**base, **(meta or {})},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main"}], **(spec or {})},
        "status": {"phase": "Running", **(status or {})},
    }


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "main", "image": "app", "resources": resources}


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ({}, ()),
        ({"containers": [container(limits={"cpu": "1"})]}, ()),
        ({"containers": [container(limits={"nvidia.com/gpu": "2"})]}, ("nvidia.com/gpu: 2",)),
        ({"containers": [container(requests={"nvidia.com/gpu": 1})]}, ("nvidia.com/gpu: 1",)),
        ({"containers": [container(limits={"nvidia.com/gpu": "0"})]}, ()),
        (
            {"containers": [container(limits={"nvidia.com/mig-1g.10gb": "1"})]},
            ("nvidia.com/mig-1g.10gb: 1",),
        ),
        (
            {"containers": [container(limits={"nvidia.com/gpu.shared": "1"})]},
            ("nvidia.com/gpu.shared: 1",),
        ),
        ({"containers": [container(limits={"nvidia.com/half": "1"})]}, ("nvidia.com/half: 1",)),
        ({"initContainers": [container(limits={"nvidia.com/gpu": "1"})]}, ("nvidia.com/gpu: 1",)),
        ({"containers": [container(limits=None)], "initContainers": None}, ()),
        ({"containers": [container(limits={"xnvidia.com/gpu": "1"})]}, ()),
    ],
)
def test_gpus_are_what_any_container_asks_for(spec: Any, gpus: tuple[str, ...]) -> None:
    assert pods.read(shown(spec=spec)).gpus == gpus


@pytest.mark.parametrize(
    ("devices", "gpus"),
    [
        (("gpu.nvidia.com",), ("claim c",)),
        (("compute-domain.nvidia.com",), ("claim c",)),
        (("nic.example.com",), ()),
        ((), ()),
    ],
)
def test_a_claim_counts_by_the_driver_of_its_devices(
    devices: tuple[str, ...], gpus: tuple[str, ...]
) -> None:
    results = [{"driver": one, "pool": "p", "device": "d"} for one in devices]
    claim = {"status": {"allocation": {"devices": {"results": results}}}}
    pod = pods.read(shown(spec={"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}))
    assert pods.with_claims(pod, {"c": pods.drivers(claim)}).gpus == gpus


def test_a_claim_that_was_given_nothing_yet_has_no_driver() -> None:
    assert pods.drivers({"status": {}}) == pods.drivers({}) == ()


def test_the_name_of_a_claim_from_a_template_is_in_the_status() -> None:
    spec = {
        "resourceClaims": [
            {"name": "made", "resourceClaimTemplateName": "t"},
            {"name": "unmade", "resourceClaimTemplateName": "t"},
            {"name": "named", "resourceClaimName": "n"},
        ]
    }
    status = {
        "resourceClaimStatuses": [
            {"name": "made", "resourceClaimName": "a-made"},
            {"name": "unmade"},
        ]
    }
    assert pods.read(shown(spec=spec, status=status)).claims == ("a-made", "n")


def test_a_claim_of_extended_resources_is_named_in_the_status() -> None:
    """tests/cluster/api/test_allocation_capabilities.py has the genuine scheduler write it."""
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "a-extended-resources-x"}}
    assert pods.read(shown(status=status)).claims == ("a-extended-resources-x",)


@pytest.mark.parametrize(
    ("owners", "controller"),
    [
        ([], ""),
        ([{"kind": "ReplicaSet", "name": "x", "controller": True}], "ReplicaSet"),
        ([{"kind": "Job", "name": "x"}], ""),
        (
            [{"kind": "Job", "name": "x"}, {"kind": "Workflow", "name": "y", "controller": True}],
            "Workflow",
        ),
    ],
)
def test_the_controller_is_the_owner_that_makes_a_pod_again(
    owners: list[dict[str, Any]], controller: str
) -> None:
    assert pods.read(shown(meta={"ownerReferences": owners})).controller == controller


@pytest.mark.parametrize(
    ("kind", "policy", "completes"),
    [
        ("Job", "OnFailure", True),
        ("PyTorchJob", "Never", True),
        ("", "Never", True),
        ("ReplicaSet", "Always", False),
        ("", "Always", False),
    ],
)
def test_what_runs_to_completion(kind: str, policy: str, completes: bool) -> None:
    owners = [{"kind": kind, "name": "x", "controller": True}] if kind else []
    found = shown(meta={"ownerReferences": owners}, spec={"restartPolicy": policy})
    assert pods.read(found).runs_to_completion == completes


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [{"kind": "Node", "name": "node-2", "controller": True}],
        [{"kind": "Node", "name": "node-1"}],
        [{"kind": "ReplicaSet", "name": "node-1", "controller": True}],
    ],
)
def test_a_pod_is_static_where_its_node_owns_it(owners: list[dict[str, Any]]) -> None:
    meta = {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": owners}
    assert not pods.read(shown(meta=meta)).mirror


@pytest.mark.parametrize(
    ("version", "group"),
    [
        ("apps/v1", "apps"),
        ("apps.kruise.io/v1alpha1", "apps.kruise.io"),
        *((one, "") for one in ("v1", "", "../v1", "a/../v1", "a/v1/b", "a/v1?x", "A/v1\n")),
    ],
)
def test_a_daemonset_is_looked_for_in_its_group(version: str, group: str) -> None:
    owner = {"apiVersion": version, "kind": "DaemonSet", "name": "x", "uid": "1"}
    pod = pods.read(shown(meta={"ownerReferences": [{**owner, "controller": True}]}))
    assert pods.daemonsets(pod) == group
    assert pods.with_daemonset(pod, "1").controller == "DaemonSet"
    assert pods.with_daemonset(pod, "2").controller == pods.with_daemonset(pod, "").controller == ""


def test_what_else_is_read_of_a_pod() -> None:
    found = pods.read(
        shown(
            meta={
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"kubernetes.io/config.mirror": "x"},
                "ownerReferences": [{"kind": "Node", "name": "node-1", "controller": True}],
            },
            spec={
                "volumes": [
                    {"name": "scratch", "emptyDir": {}},
                    {"name": "shm", "emptyDir": {"medium": "Memory"}},
                    {"name": "home", "hostPath": {"path": "/home"}},
                ]
            },
            status={"phase": "Failed"},
        )
    )
    assert (found.terminating, found.mirror, found.finished) == (True, True, True)
    assert found.emptydirs == ("scratch", "shm")
    assert str(found) == "default/a"


@pytest.mark.parametrize(
    ("spec", "opens"),
    [
        ({}, False),
        ({"runtimeClassName": "nvidia"}, True),
        ({"runtimeClassName": "kata"}, False),
        ({"containers": [{"name": "m", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.2"}]}, True),
        ({"containers": [{"name": "m", "image": "local:5000/k8s-device-plugin@sha256:1"}]}, True),
        ({"containers": [{"name": "m", "image": "nvidia/cuda:13.0"}]}, False),
        (
            {
                "containers": [
                    {"name": "m", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
                ]
            },
            True,
        ),
        (
            {
                "containers": [
                    {"name": "m", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}
                ]
            },
            False,
        ),
        (
            {
                "containers": [
                    {"name": "m", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {}}]}
                ]
            },
            False,
        ),
    ],
)
def test_what_may_have_gpus_open_without_having_asked(spec: Any, opens: bool) -> None:
    assert pods.read(shown(spec=spec)).opens == opens
