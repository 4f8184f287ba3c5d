# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The devices that nodes publish, as far as claims depend on them (ResourceSlices of resource.k8s.io/v1). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from gpu_plugin._shared._base.dra.names import DRIVER, MEMORY, MIG, NVIDIA, SHARE, TYPES
from gpu_plugin._shared._base.text.json_data import is_whole
from gpu_plugin.model.quantity import MIB, whole

from .annotations import Annotations

MOST_SIZES: Final = 8  # alternatives of one request (resource.k8s.io/v1)


@dataclass(frozen=True)
class Device:
    """Equal devices of one GPU, which may be asked for by their size.

    ``memory`` is in MiB, ``gpu`` is the GPU's UUID, ``number`` is how many there are.
    """

    kind: str
    memory: int
    product: str = ""
    gpu: str = ""
    enforcement: str = ""
    number: int = 1
    numa: int = -1  # the NUMA node, -1 if it is not known


@dataclass(frozen=True)
class Published:
    """The devices of all nodes."""

    devices: tuple[Device, ...] = ()

    def sizes(self, kind: str, annotations: Annotations, most: int = MOST_SIZES) -> list[int]:
        """Return the most frequent memory sizes of devices that suit a pod; of all devices if none suits."""
        groups = [(group, gpus) for group, gpus in self._groups.items() if group[0] == kind]
        suiting, everything = Counter[int](), Counter[int]()
        for (_kind, memory, product), gpus in groups:
            everything[memory] += sum(gpus.values())
            suiting[memory] += _number(gpus, annotations) if _suits(product, annotations) else 0
        common = (+suiting or everything).most_common(most)
        return sorted(size for size, _count in common)

    def largest(self, kind: str, annotations: Annotations) -> int:
        """Return the memory (MiB) of the largest device of a kind that suits a pod, or 0 if there is none."""
        suiting = [
            memory
            for (device_kind, memory, product), gpus in self._groups.items()
            if device_kind == kind and _suits(product, annotations) and _number(gpus, annotations)
        ]
        return max(suiting, default=0)

    def numa_nodes(self, kind: str) -> list[int]:
        """Return the NUMA nodes of such devices, the eight with most of them."""
        known = Counter(
            device.numa for device in self.devices if device.kind == kind and device.numa >= 0
        )
        return sorted(node for node, _count in known.most_common(MOST_SIZES))

    @cached_property
    def enforcements(self) -> frozenset[str]:
        """The enforcements of shares."""
        return frozenset(device.enforcement for device in self.devices if device.kind == SHARE)

    @cached_property
    def _groups(self) -> dict[tuple[str, int, str], Counter[str]]:
        """The number of devices by GPU for each kind, memory and product: thousands of GPUs are a few of these."""
        groups: dict[tuple[str, int, str], Counter[str]] = {}
        for device in self.devices:
            group = groups.setdefault((device.kind, device.memory, device.product), Counter())
            group[device.gpu] += device.number
        return groups


def _suits(product: str, annotations: Annotations) -> bool:
    """Return whether annotations allow a product, as their selectors do."""
    name = f"NVIDIA-{product}".lower()
    use, avoid = annotations.use_types, annotations.avoid_types
    is_used = not use or any(word.lower() in name for word in use)
    return is_used and not any(word.lower() in name for word in avoid)


def _number(gpus: Counter[str], annotations: Annotations) -> int:
    """Return how many devices are of GPUs that annotations allow."""
    uuids = set(annotations.use_uuids) & set(gpus) if annotations.use_uuids else set(gpus)
    return sum(gpus[uuid] for uuid in uuids - set(annotations.avoid_uuids))


def of(slices: Iterable[Mapping[str, Any]]) -> Published:
    """Return what ResourceSlices publish."""
    return Published(tuple(device for slice_object in slices for device in devices(slice_object)))


def devices(slice_object: Mapping[str, Any]) -> Iterator[Device]:
    """Yield the devices of a ResourceSlice of ours, equal ones once."""
    for described, number in Counter(_devices(slice_object)).items():
        yield replace(described, number=number)


def _devices(slice_object: Mapping[str, Any]) -> Iterator[Device]:
    spec = slice_object.get("spec") or {}
    if spec.get("driver") != DRIVER:
        return
    for device in spec.get("devices") or ():
        attributes = device.get("attributes") or {}
        kind = _text(attributes, "type")
        named = MEMORY if kind == SHARE else f"{NVIDIA}/{MEMORY}"
        memory = (whole(_entry(device.get("capacity") or {}, named).get("value")) or 0) // MIB
        if kind in TYPES and memory:
            parent = f"{NVIDIA}/parentUUID" if kind == MIG else "uuid"
            product, gpu = _text(attributes, "productName"), _text(attributes, parent)
            how, numa = _text(attributes, "enforcement"), _entry(attributes, "numaNode").get("int")
            yield Device(kind, memory, product, gpu, how, numa=numa if is_whole(numa) else -1)


def _text(attributes: Mapping[str, Any], name: str) -> str:
    return str(_entry(attributes, name).get("string", ""))


def _entry(entries: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an attribute or a capacity, with or without the driver's domain."""
    return entries.get(name) or entries.get(f"{DRIVER}/{name}") or {}
