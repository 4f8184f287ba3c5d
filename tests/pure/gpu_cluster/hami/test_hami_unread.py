# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Wishes that nothing reads, or that no published device can meet, are warned of."""

from __future__ import annotations

import pytest
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.published import Device, Published
from gpu_cluster.hami.settings import Names, Settings
from gpu_plugin._shared._base.dra.names import MIG, MPS, SHARE

from tests.fakes.cluster.hami_pods import SETTINGS, Json, limits, pod

CARDS = Published(
    (
        Device(SHARE, 81559, "NVIDIA H100 80GB HBM3", "GPU-0", MPS),
        Device(SHARE, 15360, "Tesla T4", "GPU-1", MPS),
    )
)


def warnings(one: Json, published: Published = CARDS, settings: Settings = SETTINGS) -> list[str]:
    return list(mutate(one, settings, published).warnings)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("nvidia.com/gpumem", "write it in resources.limits"),
        ("nvidia.com/gpucores", "write it in resources.limits"),
        ("nvidia.com/use-gpu-type", "did you mean nvidia.com/use-gputype?"),
        ("nvidia.com/use-gputypes", "did you mean nvidia.com/use-gputype?"),
        ("hami.io/gpu-schedule-policy", "did you mean hami.io/gpu-scheduler-policy?"),
        ("hami.io/webhook", "it is a label, for metadata.labels"),
        ("hami.io/something", "is not read"),
    ],
)
@pytest.mark.parametrize("asking", [limits(gpu=1), {}], ids=["gpu", "none"])
def test_an_annotation_that_nothing_reads_is_named(asking: Json, key: str, words: str) -> None:
    (warning,) = warnings(pod(asking, annotations={key: "4000"}))
    assert warning.startswith(f"metadata.annotations[{key}] is not read")
    assert words in warning


@pytest.mark.parametrize(
    "key",
    [
        "nvidia.com/use-gputype",
        "hami.io/gpu-scheduler-policy",
        "hami.io/vgpu-node",
        "hami.io/bind-phase",
        "hami.io/vgpu-devices-allocated",
        "example.com/gpumem",
        "nvidia.com.example/gpu",
    ],
)
def test_annotations_that_are_read_and_those_of_others_are_not_warned_of(key: str) -> None:
    value = "binpack" if "policy" in key else "H100"
    assert warnings(pod(limits(gpu=1), annotations={key: value})) == []


@pytest.mark.parametrize(
    ("asking", "annotations", "words"),
    [
        (
            limits(gpu=1, gpumem=81920),
            {},
            "81920 MiB, and the largest device that it may have is of 81559",
        ),
        (limits(gpu=1, gpumem=20000), {"nvidia.com/use-gputype": "T4"}, "is of 15360 MiB"),
        (limits(gpu=1, gpumem=3000), {"nvidia.com/use-gputype": "A100"}, "no node publishes a GPU"),
        (limits(gpu=1, gpumem=3000), {"nvidia.com/use-gpuuuid": "GPU-0-3"}, "no node publishes"),
    ],
)
def test_a_share_that_no_device_can_hold_is_named(
    asking: Json, annotations: Json, words: str
) -> None:
    (warning,) = warnings(pod(asking, annotations=annotations))
    assert warning.startswith("spec.containers[0] waits: ")
    assert words in warning


@pytest.mark.parametrize("memory", [81559, 1])
def test_a_share_that_a_device_holds_is_not_warned_of(memory: int) -> None:
    assert warnings(pod(limits(gpu=1, gpumem=memory))) == []


def test_a_mig_device_may_hold_what_no_share_does() -> None:
    cards = Published((Device(SHARE, 15360, "Tesla T4", "GPU-1", MPS), Device(MIG, 40000)))
    assert warnings(pod(limits(gpu=1, gpumem=30000)), cards) == []
    mode = {"nvidia.com/vgpu-mode": "mps"}
    assert len(warnings(pod(limits(gpu=1, gpumem=30000), annotations=mode), cards)) == 1
    assert warnings(pod(limits(gpu=1, gpumem=30000)), Published()) == []


@pytest.mark.parametrize(
    ("resource", "name", "key"),
    [
        ("nvidia.com/cores", "nvidia.com/gpucores", "resourceCoreName"),
        ("nvidia.com/gpumemory", "nvidia.com/gpumem", "resourceMemoryName"),
        (
            *("nvidia.com/gpumem-percent", "nvidia.com/gpumem-percentage"),
            "resourceMemoryPercentageName",
        ),
    ],
)
@pytest.mark.parametrize("part", ["limits", "requests"])
def test_a_resource_that_nothing_reads_is_named(
    part: str, resource: str, name: str, key: str
) -> None:
    """4paradigm's pages call the cores nvidia.com/cores, its chart nvidia.com/gpucores."""
    container = {"name": "main", "resources": {part: {**limits(gpu=1, gpumem=3), resource: "30"}}}
    (warning,) = warnings(pod(container))
    assert warning == (
        f"spec.containers[0].resources.{part}[{resource}] is not read, and the pod waits for a node that has it:"
        f" write {name}, or set {key} to {resource} in HAMi's configuration"
    )


def test_a_resource_that_nothing_reads_is_named_once() -> None:
    """API servers set the requests of extended resources to their limits before they ask webhooks."""
    amounts = {**limits(gpu=1, gpumem=3), "nvidia.com/cores": "30"}
    container = {"name": "main", "resources": {"limits": amounts, "requests": amounts}}
    assert len(warnings(pod(container))) == 1


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu.shared", "nvidia.com/gpu-a100", "nvidia.com/mig-1g.5gb", "amd.com/gpucore"],
)
def test_a_resource_of_a_device_plugin_is_not_named(resource: str) -> None:
    assert warnings(pod({**limits(gpu=1, gpumem=3), resource: "1"})) == []


def test_a_resource_that_the_configuration_names_is_read() -> None:
    settings = Settings(Names(cores="nvidia.com/cores"))
    assert warnings(pod({**limits(gpu=1), "nvidia.com/cores": "30"}), settings=settings) == []
