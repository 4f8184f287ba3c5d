# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is read of ResourceSlices, of many nodes too."""

from __future__ import annotations

from typing import Any

from gpu_cluster.hami import published
from gpu_cluster.hami.annotations import Annotations
from gpu_cluster.hami.published import Device, Published

from tests.fakes.cluster.hami_pods import Json
from tests.support.waiting import alarm

GIB = 1 << 30


def slice_of(*devices: Json, driver: str = "gpu.node") -> Json:
    return {"metadata": {"name": "s"}, "spec": {"driver": driver, "devices": list(devices)}}


def share(
    uuid: str, memory: str = "81559Mi", product: str = "NVIDIA H100", how: str = "mps"
) -> Json:
    texts = {"type": "share", "uuid": uuid, "productName": product, "enforcement": how}
    return {
        "name": f"{uuid}-share",
        "attributes": {key: {"string": text} for key, text in texts.items()},
        "capacity": {"memory": {"value": memory}, "cores": {"value": "100"}},
    }


def mig(gpu: str, size: str) -> Json:
    texts = {"type": "mig", "productName": "NVIDIA H100", "gpu.nvidia.com/parentUUID": gpu}
    return {
        "name": f"{gpu}-{size}",
        "attributes": {key: {"string": text} for key, text in texts.items()},
        "capacity": {"gpu.nvidia.com/memory": {"value": size}},
    }


def test_slices_are_read() -> None:
    whole = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}, "capacity": {}}
    found = published.of(
        [
            slice_of(whole, share("GPU-0"), mig("GPU-1", "9728Mi"), mig("GPU-1", "9728Mi")),
            slice_of(share("GPU-9"), driver="gpu.nvidia.com"),
            {"metadata": {"name": "counters"}, "spec": {"driver": "gpu.node"}},
        ]
    )
    assert found.devices == (
        Device("share", 81559, "NVIDIA H100", "GPU-0", "mps"),
        Device("mig", 9728, "NVIDIA H100", "GPU-1", number=2),
    )
    assert found.enforcements == {"mps"}


def sizes(found: Published, **annotations: Any) -> list[int]:
    return found.sizes("share", Annotations(**annotations))


def test_sizes_of_what_suits() -> None:
    found = published.of(
        [
            slice_of(
                share("GPU-0", "10Mi", "NVIDIA T4"), share("GPU-1", "20Mi"), share("GPU-2", "30Mi")
            )
        ]
    )
    assert sizes(found) == [10, 20, 30]
    assert sizes(found, use_types=("h100",)) == [20, 30]
    assert sizes(found, avoid_types=("NVIDIA-NVIDIA T4",), use_uuids=("GPU-0", "GPU-2")) == [30]
    assert sizes(found, avoid_uuids=("GPU-1",)) == [10, 30]
    assert sizes(found, use_uuids=("GPU-7",)) == [10, 20, 30]  # none suits: as if any did
    assert found.sizes("mig", Annotations()) == []


def test_a_thousand_nodes_of_eight_gpus_with_forty_mig_devices() -> None:
    sizes = [f"{9728 * (n % 5 + 1)}Mi" for n in range(40)]
    one = [mig("GPU-{}", size) for size in sizes]
    alike = tuple(published.devices(slice_of(*one)))
    assert len(alike) == 5
    rows = [
        Device(d.kind, d.memory, d.product, f"GPU-{n}", number=d.number)
        for n in range(8000)
        for d in alike
    ]
    found = Published(tuple(rows))
    assert len(found.sizes("mig", Annotations())) == 5
    with alarm():  # which is for what looks at each pair of devices
        for _each in range(5):
            found.sizes("mig", Annotations(use_types=("H100",), use_uuids=("GPU-1", "GPU-2")))
