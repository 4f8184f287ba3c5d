# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes that a file describes: how many, with which GPUs, and how these are allocated."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import yaml
from gpu_plugin._shared._base.errors import InputError, NodeError
from gpu_plugin._shared._base.gpu import GiProfile, Gpu
from gpu_plugin._shared._base.text.shown import cut
from gpu_plugin._shared._mig.products import PRODUCTS
from gpu_plugin.config import configuration, plain_yaml
from gpu_plugin.config.sharing import GPU_RESOURCE
from gpu_plugin.model import quantity
from gpu_plugin.model.inventory import GpuView, Inventory, Layout
from gpu_plugin.model.quantity import MIB
from gpu_plugin.slices import build

LIMITS: Final = plain_yaml.Limits(4 << 20, 100_000)
MAX_NODES: Final = 5_000  # as many as Kubernetes supports in a cluster
MAX_GPUS: Final = 64
NODE_KEYS: Final = (
    *("name", "count", "gpus", "config", "cpu", "memory"),
    *("pods", "labels", "taints", "extended"),
)
GPU_KEYS: Final = ("product", "count", "memory", "computeCapability", "mig", "numaNode", "uuids")
DEFAULT_CONFIG: Final = {"gpuNode": {"allocation": "dra"}}
# More than pods ask for, so that what an inventory leaves out keeps no pod pending; pods as the kubelet's default.
DEFAULT_ALLOCATABLE: Final = {
    "cpu": "1000",
    "memory": "100Ti",
    "ephemeral-storage": "100Ti",
    "pods": "110",
}
# Memory (MiB, as NVML reports it) and compute capability by words of a product's name: NVIDIA's data sheets and
# https://developer.nvidia.com/cuda-gpus. An inventory has to give both for other products.
KNOWN: Final = {
    "V100 16GB": (16384, (7, 0)),
    "V100 32GB": (32768, (7, 0)),
    "T4": (15360, (7, 5)),
    "A10": (23028, (8, 6)),
    "A30": (24576, (8, 0)),
    "A100 40GB": (40960, (8, 0)),
    "A100 80GB": (81920, (8, 0)),
    "A800 40GB": (40960, (8, 0)),
    "A800 80GB": (81920, (8, 0)),
    "L4": (23034, (8, 9)),
    "L40": (46068, (8, 9)),
    "L40S": (46068, (8, 9)),
    "H100 80GB": (81559, (9, 0)),
    "H800 80GB": (81559, (9, 0)),
    "H200": (143771, (9, 0)),
}
Json = Mapping[str, Any]


def parse(text: str, source: str) -> list[Json]:
    """Return the Nodes and ResourceSlices of an inventory file.

    Raises:
        NodeError: if the file is no YAML, or a value can't be used.
    """
    try:
        data = plain_yaml.load(text, LIMITS)
    except yaml.YAMLError as error:
        raise NodeError(f"{source}: not valid YAML", cause=cut(str(error))) from error
    rows = data.get("nodes") if isinstance(data, Mapping) else None
    if not isinstance(rows, list) or not rows:
        raise InputError.of(f"{source}: nodes", rows, "a list of nodes with name and gpus")
    objects: list[Json] = []
    names: set[str] = set()
    for number, row in enumerate(rows):
        where = f"{source}: nodes[{number}]"
        values = _mapping(row, where, NODE_KEYS)
        base, count = str(values.get("name") or "node"), _count(values, where, MAX_NODES, 1)
        numbered = [f"{base}-{position}" for position in range(count)]
        for name in numbered if "count" in values else [base]:
            if name in names:
                raise InputError.of(f"{source}: nodes", name, "names that differ")
            if len(names) == MAX_NODES:
                raise InputError.of(f"{source}: nodes", name, f"at most {MAX_NODES} nodes")
            names.add(name)
            objects += _node_objects(row, where, name)
    return objects


def _node_objects(values: Json, where: str, name: str) -> Iterator[Json]:
    """Yield a node and its slices."""
    gpus = tuple(_gpu_views(values.get("gpus") or [], f"{where}.gpus", name))
    config = _config(values.get("config") or DEFAULT_CONFIG, f"{where}.config")
    resources = {
        key: str(values[key]) for key in DEFAULT_ALLOCATABLE if values.get(key) is not None
    }
    for key, value in resources.items():
        quantity.of(value, f"{where}.{key}")
    by_plugin = len(gpus) if config.dra.allocation == "device_plugin" else 0
    extended = values.get("extended") or ({GPU_RESOURCE: by_plugin} if by_plugin else {})
    resources |= {str(key): str(value) for key, value in extended.items()}
    allocatable = DEFAULT_ALLOCATABLE | resources
    labels = {str(key): str(value) for key, value in (values.get("labels") or {}).items()}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": values["taints"]} if values.get("taints") else {},
        "status": {
            "capacity": allocatable,
            "allocatable": dict(allocatable),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    for number, spec in enumerate(build(Inventory("", gpus), config, {}, {}, node=name)):
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-gpu.node-{number}"},
            "spec": spec,
        }


def _config(data: Any, where: str) -> configuration.Config:
    """Return a node's configuration, which has the keys of the device plugin's file."""
    if not isinstance(data, Mapping):
        raise InputError.of(where, data, "what the device plugin's configuration file has")
    return configuration.parse(yaml.safe_dump({"version": "v1", **data}), where)


def _gpu_views(rows: Any, where: str, node: str) -> Iterator[GpuView]:
    if not isinstance(rows, list):
        raise InputError.of(where, rows, "a list of GPUs")
    index = 0
    for number, row in enumerate(rows):
        place = f"{where}[{number}]"
        values = _mapping(row, place, GPU_KEYS)
        uuids = values.get("uuids") or []
        for position in range(_count(values, place, MAX_GPUS, max(1, len(uuids)))):
            uuid = str(uuids[position]) if position < len(uuids) else f"GPU-{node}-{index}"
            yield _gpu_view(values, place, index, uuid)
            index += 1
    if index > MAX_GPUS:
        raise InputError.of(where, index, f"at most {MAX_GPUS} GPUs")


def _gpu_view(values: Json, where: str, index: int, uuid: str) -> GpuView:
    name = str(values.get("product") or "GPU")
    product = known_product(name)
    memory = _memory(values.get("memory"), where, product)
    mig = bool(values.get("mig"))
    profiles = mig_profiles(product, memory // MIB) if mig else ()
    if mig and not profiles:
        expected = "a product whose MIG profiles are known, such as H100 80GB"
        raise InputError.of(f"{where}.mig", name, expected)
    capability = _compute_capability(values.get("computeCapability"), where, product)
    bus = f"0000:{index + 1:02x}:00.0"
    gpu = Gpu(index, uuid, name, bus, index, memory, capability, mig, mig, mig, 0)
    numa = values.get("numaNode")
    return GpuView(gpu, numa_node=numa if isinstance(numa, int) else None, layout=Layout(profiles))


def _memory(value: Any, where: str, product: str) -> int:
    """Return a GPU's memory in bytes."""
    if value is None and product:
        return KNOWN[product][0] * MIB
    need = "" if product else f", as it is none of {', '.join(KNOWN)}"
    memory = 0 if value is None else int(quantity.of(value, f"{where}.memory"))
    if not MIB <= memory <= MIB << 24:
        raise InputError.of(f"{where}.memory", value, f"the GPU's memory, such as 32Gi{need}")
    return memory


def _compute_capability(value: Any, where: str, product: str) -> tuple[int, int]:
    if value is None:
        return KNOWN[product][1] if product else (8, 0)
    major, _dot, minor = str(value).partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise InputError.of(f"{where}.computeCapability", value, "a version such as 9.0")
    return int(major), int(minor)


def known_product(name: str) -> str:
    """Return the key of KNOWN for a product, such as A100 80GB for NVIDIA A100-SXM4-80GB, or an empty text."""
    terms = set(re.split(r"[\s/_-]+", name.upper()))
    return max((key for key in KNOWN if set(key.split()) <= terms), key=len, default="")


def mig_profiles(product: str, memory: int) -> tuple[GiProfile, ...]:
    """Return the MIG profiles of a key of KNOWN.

    ``memory`` is the GPU's in MiB. The memory of a profile is its fraction of memory slices, so it is not exact.
    """
    profiles = PRODUCTS.get({"H200": "H200 141GB"}.get(product, product), ((), ()))[1]
    slices = max((end for profile in profiles for end in map(sum, profile.placements)), default=1)
    return tuple(
        replace(profile, memory_mb=memory * profile.placements[0][1] // slices)
        for profile in profiles
    )


def _mapping(data: Any, where: str, keys: Sequence[str]) -> Json:
    if not isinstance(data, Mapping):
        raise InputError.of(where, data, f"a mapping with {', '.join(keys)}")
    for key in data:
        if key not in keys:
            nearest = difflib.get_close_matches(str(key), keys, 1)
            suggestion = f"; the nearest is {nearest[0]}" if nearest else ""
            expected = f"one of the keys {', '.join(keys)}{suggestion}"
            raise InputError.of(f"{where}.{key}", data[key], expected)
    return data


def _count(values: Json, where: str, maximum: int, default: int) -> int:
    value = values.get("count", default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
        raise InputError.of(f"{where}.count", value, f"a number from 1 to {maximum}")
    return value
