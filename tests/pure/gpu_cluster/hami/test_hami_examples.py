# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The fields of HAMi's example manifests (examples/nvidia of 2.10), in pods of our own."""

from __future__ import annotations

import pytest
from gpu_cluster.hami.errors import Refused
from gpu_cluster.hami.mutation import mutate

from tests.fakes.cluster.hami_pods import (
    MIG_NODES,
    MPS_NODES,
    OTHER_NODES,
    SETTINGS,
    asked,
    changed,
    exactly,
    expressions,
    limits,
    pod,
)

CONFIG = {"apiVersion": "gpu.node/v1", "kind": "ShareConfig", "priority": 1, "coreLimit": True}


def test_memory_and_cores_become_a_claim() -> None:
    one = pod(limits(gpu=1, gpumem=3000, gpucores=30))
    after, found = changed(one)
    assert after["spec"]["containers"][0]["resources"] == {
        "limits": dict.fromkeys(limits(gpu=1, gpumem=3000, gpucores=30), "0"),
        "claims": [{"name": "gpu-main-0"}],
    }
    (template,) = found.templates
    assert after["spec"]["resourceClaims"] == [
        {"name": "gpu-main-0", "resourceClaimTemplateName": template.name}
    ]
    assert template.spec["spec"]["devices"] == {
        "requests": [
            {
                "name": "gpu",
                "exactly": {
                    "deviceClassName": "share.gpu.node",
                    "allocationMode": "ExactCount",
                    "count": 1,
                    "capacity": {"requests": {"memory": "3000Mi", "cores": "30"}},
                },
            }
        ],
        "config": [
            {"requests": ["gpu"], "opaque": {"driver": "gpu.node", "parameters": CONFIG}},
        ],
    }
    assert found.warnings == ()


def test_default_use_legacy_and_use_as_normal() -> None:
    for count in (1, 2):
        assert mutate(pod(limits(gpu=count)), SETTINGS, MPS_NODES).patch == []


def test_a_deployments_pod_with_the_default_scheduler() -> None:
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    one = pod(
        limits(gpu=1, gpumem=3000), schedulerName="default-scheduler", tolerations=tolerations
    )
    after, _found = changed(one)
    assert after["spec"]["tolerations"] == tolerations
    assert after["spec"]["schedulerName"] == "default-scheduler"
    assert exactly(one)["capacity"] == {"requests": {"memory": "3000Mi"}}


def test_mig_mode_asks_for_the_smallest_fitting_profile_first() -> None:
    annotations = {"nvidia.com/vgpu-mode": "mig", "hami.io/gpu-scheduler-policy": "binpack"}
    one = pod(limits(gpu=2, gpumem=8000), annotations=annotations)
    ways = asked(one, MIG_NODES)["firstAvailable"]
    assert [way["name"] for way in ways] == ["of-9728", "of-19968", "larger"]
    assert {(way["deviceClassName"], way["count"]) for way in ways} == {("mig.gpu.node", 2)}
    assert expressions(ways[0]) == [
        'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("9728Mi")) == 0'
    ]
    assert mutate(one, SETTINGS, MIG_NODES).warnings == ()


def test_mig_example_is_the_device_plugins() -> None:
    assert mutate(pod({"nvidia.com/mig-3g.20gb": 1}), SETTINGS, MPS_NODES).patch == []


def test_card_types_become_selectors_of_the_product() -> None:
    use = exactly(pod(limits(gpu=2), annotations={"nvidia.com/use-gputype": "A100,V100"}))
    assert (use["deviceClassName"], use["count"]) == ("gpu.gpu.node", 2)
    name = '("NVIDIA-" + device.attributes["gpu.node"].productName).lowerAscii()'
    there = '"productName" in device.attributes["gpu.node"]'
    assert expressions(use) == [f'{there} && ({name}.contains("a100") || {name}.contains("v100"))']
    avoid = exactly(pod(limits(gpu=2), annotations={"nvidia.com/nouse-gputype": "1080, 2080"}))
    assert expressions(avoid) == [
        f'!({there}) || !({name}.contains("1080") || {name}.contains("2080"))'
    ]


def test_uuids_become_selectors() -> None:
    uuids = "GPU-03f69c50-207a-2038-9b45-23cac89cb67d,GPU-03f69c50-207a-2038-9b45-23cac89cb67e"
    use = exactly(pod(limits(gpu=1), annotations={"nvidia.com/use-gpuuuid": uuids}))
    assert expressions(use) == [
        '"uuid" in device.attributes["gpu.node"] && device.attributes["gpu.node"].uuid in '
        '["GPU-03f69c50-207a-2038-9b45-23cac89cb67d", "GPU-03f69c50-207a-2038-9b45-23cac89cb67e"]'
    ]
    avoid = exactly(pod(limits(gpu=2), annotations={"nvidia.com/nouse-gpuuuid": "GPU-0"}))
    assert expressions(avoid) == [
        '!("uuid" in device.attributes["gpu.node"]) || '
        '!(device.attributes["gpu.node"].uuid in ["GPU-0"])'
    ]


def test_scheduling_policies_are_warned_of() -> None:
    annotations = {
        "hami.io/node-scheduler-policy": "spread",
        "hami.io/gpu-scheduler-policy": "binpack",
    }
    found = mutate(pod(limits(gpu=1), annotations=annotations), SETTINGS, MPS_NODES)
    assert found.patch == []
    assert found.warnings == (
        "metadata.annotations[hami.io/node-scheduler-policy]: spread is not done, "
        "as kube-scheduler does not score claims",
    )


def test_all_of_a_card_is_a_whole_gpu() -> None:
    way = exactly(pod(limits(gpu=2, gpumem_percentage=100, gpucores=100)))
    assert way == {"deviceClassName": "gpu.gpu.node", "allocationMode": "ExactCount", "count": 2}


def test_use_memory_fraction_on_two_gpus() -> None:
    one = pod(limits(gpu=2, gpumem_percentage=50, gpucores=30))
    with pytest.raises(Refused) as told:
        mutate(one, SETTINGS, MPS_NODES)
    assert str(told.value) == (
        "spec.containers[0].resources.limits[nvidia.com/gpu]: 2 can't be: under mps a container has"
        " shares of one GPU only, and no node has another enforcement. Next step: ask for one GPU,"
        " for whole GPUs, or let nodes have another enforcement (gpuNode.dra.enforcement)"
    )
    way = exactly(one, OTHER_NODES)
    assert expressions(way) == [
        'device.capacity["gpu.node"].memory.compareTo(quantity("32768Mi")) == 0',
        'device.attributes["gpu.node"].enforcement != "mps"',
    ]
    assert way["capacity"] == {"requests": {"memory": "16Gi", "cores": "30"}}


def test_percentages_of_memory_become_amounts() -> None:
    ways = [exactly(pod(limits(gpu=1, gpumem_percentage=p, gpucores=100 - p))) for p in (40, 60)]
    assert [way["capacity"]["requests"] for way in ways] == [
        {"memory": "13107Mi", "cores": "60"},
        {"memory": "19660Mi", "cores": "40"},
    ]


def test_requests_are_set_to_zero_as_limits_are() -> None:
    amounts = limits(gpu=2, gpumem_percentage=30, gpucores=30)
    resources = {
        "limits": {"cpu": "8", "memory": "20Gi", **amounts},
        "requests": {"cpu": "2", "memory": "6Gi", **amounts},
    }
    one = pod({"name": "vllm", "resources": resources})
    after, _found = changed(one, OTHER_NODES)
    assert after["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "8", "memory": "20Gi", **dict.fromkeys(amounts, "0")},
        "requests": {"cpu": "2", "memory": "6Gi", **dict.fromkeys(amounts, "0")},
        "claims": [{"name": "gpu-vllm"}],
    }


def test_quantities_are_as_the_api_server_writes_them() -> None:
    """Else a template that is there, and was read back, looks like another one."""
    one = pod(limits(gpu=1, gpumem=10240))
    assert exactly(one)["capacity"] == {"requests": {"memory": "10Gi"}}
