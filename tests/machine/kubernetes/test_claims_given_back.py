# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims that the kubelet has forgotten, as an API server tells of them to the kubelet's own credential."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.checkpoint import PREPARED, Device, PreparedClaim
from gpu_plugin.cluster.access import Access
from gpu_plugin.dra.prepare.apply import PATIENCE, Checkpoint, Forgotten
from gpu_plugin.dra.prepare.claims import ClaimApi
from gpu_plugin.dra.users import Users
from gpu_plugin.dra.values import ALL, Claim, Container

from tests.fakes.clock import Clock
from tests.fakes.dra import allocated
from tests.fakes.kubernetes.administered import KINDS, Administered
from tests.support.waiting import eventually

NODE = "node-1"
CLAIMS = KINDS["ResourceClaim"].format("default")
PODS = KINDS["Pod"].format("default")
AT_ONCE = {"gracePeriodSeconds": 0}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(
    api_server: type[Administered], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Administered]:
    with api_server(tmp_path_factory.mktemp("api")) as made:
        made.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        account = {"name": "default", "namespace": "default"}
        made.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        yield made


@pytest.fixture(scope="module")
def kubelet(cluster: Administered) -> Access:
    return cluster.access(f"system:node:{NODE}", "system:nodes")


def allocate(cluster: Administered, name: str, device: str = "", pool: str = NODE) -> None:
    """Let a claim be allocated a device, or none."""
    result = allocated.result(pool, device)
    allocation = {"devices": {"results": [result]}} if device else None
    status = {"status": {"allocation": allocation}}
    kind = "application/merge-patch+json"
    cluster.admin.ask("allocating", "PATCH", f"{CLAIMS}/{name}/status", status, kind=kind)


def held(cluster: Administered, kubelet: Access, name: str) -> PreparedClaim:
    """Return a claim that was prepared for a pod, once the server knows that pod."""
    meta = {"name": name, "namespace": "default"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.gpu.node"}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta}
    made = cluster.create({**claim, "spec": {"devices": {"requests": [request]}}})
    allocate(cluster, name, "gpu-0")
    container = {"name": "main", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}
    named = [{"name": "gpu", "resourceClaimName": name}]
    spec = {"containers": [container], "resourceClaims": named, "nodeName": NODE}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    devices = (Device("gpu", NODE, "gpu-0", "GPU-0", 0),)
    found = PreparedClaim(made["metadata"]["uid"], "default", name, PREPARED, devices)
    eventually(lambda: ClaimApi(kubelet, NODE).gone(found), False)
    return found


def end_pod(cluster: Administered, kubelet: Access, one: PreparedClaim) -> None:
    """Let a pod be gone, and the server know that."""
    cluster.admin.ask("ending a pod", "DELETE", f"{PODS}/{one.name}", AT_ONCE)
    eventually(lambda: ClaimApi(kubelet, NODE).gone(one))


def test_a_claim_of_a_pod_that_is_gone_is_given_back_whether_it_lives_on_or_not(
    cluster: Administered, kubelet: Access
) -> None:
    one = held(cluster, kubelet, "train")
    end_pod(cluster, kubelet, one)
    assert ClaimApi(kubelet, NODE).gone(one)
    assert not ClaimApi(cluster.admin, NODE).gone(one)  # to whom the server tells more
    cluster.admin.ask("deleting", "DELETE", f"{CLAIMS}/train")
    assert ClaimApi(kubelet, NODE).gone(one)
    assert ClaimApi(cluster.admin, NODE).gone(one)


def test_a_named_claim_that_is_allocated_elsewhere_is_given_back(
    cluster: Administered, kubelet: Access
) -> None:
    one = held(cluster, kubelet, "named")
    allocate(cluster, "named")
    assert ClaimApi(kubelet, NODE).gone(one)
    for device, pool, found in (
        ("gpu-0", NODE, False),
        ("gpu-1", NODE, True),
        ("gpu-0", "b", True),
    ):
        allocate(cluster, "named")
        allocate(cluster, "named", device, pool)
        assert ClaimApi(kubelet, NODE).gone(one) is found, (device, pool)


def test_claims_of_one_container_are_told_by_its_pod(
    cluster: Administered, kubelet: Access
) -> None:
    container = {
        "name": "main",
        "image": "app",
        "resources": {"claims": [{"name": "a"}, {"name": "b"}]},
    }
    named = [{"name": one, "resourceClaimName": f"claim-{one}"} for one in "ab"]
    spec = {"containers": [container], "resourceClaims": named, "nodeName": NODE}
    meta = {"name": "both", "namespace": "default"}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    claim = Claim("uid", "default", "claim-a", (), ("pod-uid",), ("both",))
    claims = (("claim-a", ALL), ("claim-b", ALL))
    eventually(lambda: ClaimApi(kubelet, NODE).containers(claim), (Container("main", claims),))


def test_what_the_kubelet_has_forgotten_is_given_back_with_its_own_credential(
    cluster: Administered, kubelet: Access, tmp_path: Path
) -> None:
    checkpoint, undone, clock = Checkpoint(tmp_path / "checkpoint.json"), [], Clock()
    lost, kept = (held(cluster, kubelet, name) for name in ("lost", "kept"))
    for one in (lost, kept):
        checkpoint.put(one)
    end_pod(cluster, kubelet, lost)
    forgotten = Forgotten(
        Users(tmp_path), checkpoint, ClaimApi(kubelet, NODE).gone, undone.append, clock.time
    )
    forgotten.look()
    clock.now += PATIENCE
    forgotten.look()
    assert undone == [lost.uid]
