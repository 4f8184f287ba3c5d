# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Kubernetes' allocator makes of our slices, by its model; asked as recorder.go has it, the genuine one agrees."""

from __future__ import annotations

from typing import Any

from gpu_plugin._shared._base.dra.names import pool_name
from gpu_plugin.config.configuration import parse
from gpu_plugin.slices import build

from tests.fakes.cluster.placing import NODE, answers, asks, claim, device_class, network
from tests.fakes.daemon.gpu_builders import inventory, view

Json = dict[str, Any]
CLASSES = [
    device_class("gpu", "device.driver == 'gpu.node' && !device.allowMultipleAllocations"),
    device_class("vf", "device.driver == 'dra.net'"),
]


def published(pool: str = "") -> list[Json]:
    """The slices of a node with a GPU."""
    specs = build(
        inventory(view(0)), parse("gpuNode: {allocation: dra}"), {}, {}, node=NODE, pool=pool
    )
    return [
        {"metadata": {"name": f"gpu-{number}"}, "spec": spec} for number, spec in enumerate(specs)
    ]


def network_slices() -> list[Json]:
    """The slices of a network card, whose pool is named as the node."""
    return [
        {"metadata": {"name": f"net-{number}"}, "spec": spec}
        for number, spec in enumerate(network(NODE))
    ]


def case(pool: str = "") -> Json:
    """A GPU of which a share is allocated, and a pod that wants a network function and a whole GPU."""
    consumed = {"memory": "1Gi", "cores": "0", "shares": "1"}
    result = {"request": "r", "driver": "gpu.node", "pool": pool or pool_name(NODE)}
    share = {**result, "device": "gpu-0-share", "shareID": "0e7f", "consumedCapacity": consumed}
    return {
        "slices": [*network_slices(), *published(pool)],
        "classes": CLASSES,
        "allocated": [{"status": {"allocation": {"devices": {"results": [share]}}}}],
        "pods": [[claim("vf", asks("r0", "vf")), claim("gpu", asks("r0", "gpu"))]],
    }


def test_another_drivers_counters_do_not_free_a_gpu_that_has_shares() -> None:
    assert answers(case(pool=NODE)) == ["r0=vf-0|r0=gpu-0"]  # as the pool was named once
    assert answers(case()) == ["-"]
