# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a cluster's quotas and tolerations make of pods with GPUs, by whichever way the scheduler gives them."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_plugin._shared._base.dra.names import (
    BOTH,
    DEVICE_PLUGIN,
    GPU_CLASS,
    MIG_CLASS,
    SHARE_CLASS,
)
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.fakes.cluster.allocation_modes import (
    MODES,
    PROFILE,
    REQUESTS,
    Mode,
    ModesCluster,
    each_working_request,
)
from tests.support.waiting import eventually

RESOURCE = "requests.nvidia.com/gpu"
MIG_RESOURCE = f"requests.nvidia.com/mig-{PROFILE}"
CLAIMS = "count/resourceclaims.resource.k8s.io"
KEYS = {
    name: f"{name}.deviceclass.resource.k8s.io/devices"
    for name in (GPU_CLASS, MIG_CLASS, SHARE_CLASS)
}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "team", "namespace": "default"},
    "spec": {"hard": dict.fromkeys((RESOURCE, MIG_RESOURCE, CLAIMS, *KEYS.values()), "10")},
}
WHOLE = {RESOURCE, KEYS[GPU_CLASS], CLAIMS}  # of a claim for a GPU, whoever makes it
COUNTED = {
    "mig resource": {MIG_RESOURCE},
    "gpu claim": WHOLE,
    "mig claim": {KEYS[MIG_CLASS], CLAIMS},
    "share claim": {KEYS[SHARE_CLASS], CLAIMS},
}


def used(cluster: ModesCluster) -> set[str] | None:
    """Return the keys of the quota that count something, and nothing before the controller has looked."""
    amounts = cluster.get("ResourceQuota", "team", "default").get("status", {}).get("used")
    if amounts is None:
        return None
    return {key for key, amount in amounts.items() if amount != "0"}


@pytest.fixture
def cluster(modes_cluster: ModesCluster) -> ModesCluster:
    modes_cluster.create(QUOTA)
    eventually(lambda: used(modes_cluster), set())
    return modes_cluster


@each_working_request
def test_a_quota_counts_a_device_by_the_key_of_the_page(
    cluster: ModesCluster, mode: Mode, request_name: str
) -> None:
    cluster.create_pod("job", mode, REQUESTS[request_name])
    assert cluster.is_placed("job")
    by_plugin = mode.allocation in (DEVICE_PLUGIN, BOTH)
    counted = {**COUNTED, "gpu resource": {RESOURCE} if by_plugin else WHOLE}
    eventually(lambda: used(cluster), counted[request_name])


def test_a_claim_for_all_devices_counts_as_32(cluster: ModesCluster) -> None:
    request = {"deviceClassName": MIG_CLASS, "allocationMode": "All"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "mig", "exactly": request}]}},
    }
    with pytest.raises(ApiError, match=rf"requested: {KEYS[MIG_CLASS]}=32"):
        cluster.create(claim)


@pytest.mark.parametrize("request_name", REQUESTS)
def test_admission_tolerates_the_taint_of_a_resource_and_not_of_a_claim(
    modes_cluster: ModesCluster, request_name: str
) -> None:
    request = REQUESTS[request_name]
    modes_cluster.create_pod("job", MODES[0], request)
    tolerations: list[Any] = modes_cluster.get("Pod", "job", "default")["spec"]["tolerations"]
    keys = {toleration["key"] for toleration in tolerations if toleration.get("key")}
    assert request.get("limits", {}).keys() <= keys
    assert any(key.startswith("nvidia.com/") for key in keys) == ("limits" in request)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode.allocation == BOTH])
def test_a_resource_of_the_device_plugin_gets_no_gpu_of_claims(
    modes_cluster: ModesCluster, mode: Mode
) -> None:
    """The node has one GPU of each, and the scheduler looks at the device plugin's alone."""
    modes_cluster.create_pod("first", mode, REQUESTS["gpu resource"])
    assert modes_cluster.is_placed("first")
    assert modes_cluster.claims("first") == []
    modes_cluster.create_pod("second", mode, REQUESTS["gpu resource"])
    assert not modes_cluster.is_placed("second")
