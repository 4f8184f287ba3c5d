# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi's modes of a card: shares under an enforcement, MIG devices, or what there is of both."""

from __future__ import annotations

from typing import Any

from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.published import Published

from tests.fakes.cluster.hami_pods import (
    BOTH_NODES,
    MIG_NODES,
    MPS_NODES,
    OTHER_NODES,
    SETTINGS,
    Json,
    asked,
    exactly,
    expressions,
    limits,
    pod,
    refusal,
)


def test_vgpu_mode_chooses_what_enforces_the_share() -> None:
    def of(mode: str, published: Published, **amounts: Any) -> Json:
        return exactly(
            pod(limits(**amounts), annotations={"nvidia.com/vgpu-mode": mode}), published
        )

    share = {"gpu": 1, "gpumem": 1000}
    assert expressions(of("mps", MPS_NODES, **share)) == [
        'device.attributes["gpu.node"].enforcement == "mps"'
    ]
    assert expressions(of("hami-core", MPS_NODES, **share)) == []  # any card without MIG
    mig = of("mig", MPS_NODES, **share)
    assert mig["deviceClassName"] == "mig.gpu.node"
    assert expressions(mig) == [
        'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("1000Mi")) >= 0'
    ]
    mode = {"nvidia.com/vgpu-mode": "mig"}
    told = refusal(pod(limits(gpu=1), annotations=mode), MIG_NODES)
    assert (
        "nvidia.com/vgpu-mode]: 'mig' can't be: spec.containers[0] says no nvidia.com/gpumem"
        in told
    )
    told = refusal(pod(limits(gpu=1), annotations={"nvidia.com/vgpu-mode": "dra"}))
    assert "expected some of hami-core, mps, mig" in told
    told = refusal(
        pod(limits(gpu=2, gpumem=1), annotations={"nvidia.com/vgpu-mode": "mps"}), OTHER_NODES
    )
    assert told.startswith("metadata.annotations[nvidia.com/vgpu-mode]: 'mps' can't be")


def ways(one: Json, published: Published) -> list[tuple[str, str]]:
    """Return by which ways a pod's claim can be had: their names and classes."""
    found = asked(one, published)
    each = found.get("firstAvailable") or [{"name": "", **found["exactly"]}]
    return [(way["name"], way["deviceClassName"].partition(".")[0]) for way in each]


def test_without_a_mode_a_mig_device_does_where_no_share_is_left() -> None:
    one = pod(limits(gpu=1, gpumem=8000, gpucores=30))
    assert ways(one, MPS_NODES) == [("", "share")]
    expected = [("share", "share"), ("of-9728", "mig"), ("of-19968", "mig"), ("larger", "mig")]
    for nodes in (BOTH_NODES, MIG_NODES):
        assert ways(one, nodes) == expected
    (template,) = mutate(one, SETTINGS, BOTH_NODES).templates
    devices = template.spec["spec"]["devices"]
    assert [each["requests"] for each in devices["config"]] == [["gpu/share"]]
    share, mig = devices["requests"][0]["firstAvailable"][:2]
    assert share["capacity"] == {"requests": {"memory": "8000Mi", "cores": "30"}}
    assert "capacity" not in mig
    assert mutate(one, SETTINGS, BOTH_NODES).warnings == ()


def test_a_mig_device_is_no_way_where_it_can_not_be() -> None:
    for amounts in ({"gpumem": 30000}, {"gpucores": 30}, {"gpumem_percentage": 20}):
        assert ways(pod(limits(gpu=1, **amounts)), BOTH_NODES) == [("", "share")], amounts
    for mode in ("mps", "hami-core"):
        one = pod(limits(gpu=1, gpumem=8000), annotations={"nvidia.com/vgpu-mode": mode})
        assert ways(one, BOTH_NODES) == [("", "share")]


def test_several_are_mig_devices_where_all_shares_are_under_mps() -> None:
    one = pod(limits(gpu=2, gpumem=8000))
    assert {kind for _name, kind in ways(one, BOTH_NODES)} == {"mig"}
    (template,) = mutate(one, SETTINGS, BOTH_NODES).templates
    assert "config" not in template.spec["spec"]["devices"]
    more = Published((*BOTH_NODES.devices, *OTHER_NODES.devices))
    assert {kind for _name, kind in ways(one, more)} == {"share", "mig"}
    mode = {"nvidia.com/vgpu-mode": "mps,mig"}
    assert {
        kind for _name, kind in ways(pod(limits(gpu=2, gpumem=8000), annotations=mode), more)
    } == {"mig"}


def test_vgpu_mode_may_name_several() -> None:
    def of(mode: str, published: Published) -> list[tuple[str, str]]:
        wish = {"nvidia.com/vgpu-mode": mode}
        return ways(pod(limits(gpu=1, gpumem=10000), annotations=wish), published)

    expected = [("share", "share"), ("of-19968", "mig"), ("larger", "mig")]
    for mode in ("hami-core,mig", "mps, mig", "mig,hami-core,mps"):
        assert of(mode, BOTH_NODES) == expected
    one = pod(limits(gpu=1, gpumem=1), annotations={"nvidia.com/vgpu-mode": "mps,hami-core"})
    assert expressions(exactly(one, BOTH_NODES)) == []
    told = refusal(pod(limits(gpu=1), annotations={"nvidia.com/vgpu-mode": "mig,dra"}))
    assert "vgpu-mode]: 'dra' can't be" in told


def test_a_share_that_no_node_publishes_is_told() -> None:
    (told,) = mutate(pod(limits(gpu=1, gpucores=30)), SETTINGS, MIG_NODES).warnings
    assert told == (
        "spec.containers[0] waits: no node publishes shares, and none a MIG device that it may have"
    )
    assert mutate(pod(limits(gpu=1, gpucores=30)), SETTINGS, Published()).warnings == ()


def test_a_mig_device_of_a_gpu_by_its_uuid() -> None:
    annotations = {"nvidia.com/vgpu-mode": "mig", "nvidia.com/nouse-gpuuuid": "GPU-1"}
    way = exactly(pod(limits(gpu=1, gpumem=30000), annotations=annotations), MIG_NODES)
    assert expressions(way)[1] == (
        '!("parentUUID" in device.attributes["gpu.nvidia.com"]) || '
        '!(device.attributes["gpu.nvidia.com"].parentUUID in ["GPU-1"])'
    )
