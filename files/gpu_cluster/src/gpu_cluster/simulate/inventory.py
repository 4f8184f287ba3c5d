# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes that are described in a file: how many, with which GPUs, and how they are allocated."""

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

from .nodes import Node, made_of

LIMITS: Final = plain_yaml.Limits(4 << 20, 100_000)
MOST_NODES, MOST_GPUS = 20_000, 64
NODE_KEYS: Final = (
    *("name", "count", "gpus", "config", "cpu", "memory"),
    *("pods", "labels", "taints", "extended"),
)
GPU_KEYS: Final = ["product", "count", "memory", "computeCapability", "mig", "numaNode", "uuids"]
DEFAULT: Final = {"gpuNode": {"allocation": "dra"}}
# Memory in MiB, as NVML has it, and compute capability by words of a product's name: of NVIDIA's data sheets and the
# CUDA page of compute capabilities. What is not listed needs both in the inventory.
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


def known(name: str) -> str:
    """Return the key of a product's name, such as A100 80GB for NVIDIA A100-SXM4-80GB; empty if it has none."""
    words = set(re.split(r"[\s/_-]+", name.upper()))
    return max((key for key in KNOWN if set(key.split()) <= words), key=len, default="")


def profiles(key: str, memory: int) -> tuple[GiProfile, ...]:
    """Return the MIG profiles of a product, with about the memory (MiB) of each: its part of the memory slices."""
    found = PRODUCTS.get({"H200": "H200 141GB"}.get(key, key), ((), ()))[1]
    slices = max((end for one in found for end in map(sum, one.placements)), default=1)
    return tuple(replace(one, memory_mb=memory * one.placements[0][1] // slices) for one in found)


def nodes(text: str, source: str) -> tuple[list[Node], list[Json]]:
    """Return the nodes of an inventory file and their ResourceSlices. NodeError: a value can't be used.

    The slices are those of one node of each row.
    """
    try:
        data = plain_yaml.load(text, LIMITS)
    except yaml.YAMLError as error:
        raise NodeError(f"{source}: not valid YAML", cause=cut(str(error))) from error
    rows = data.get("nodes") if isinstance(data, Mapping) else None
    if not isinstance(rows, list) or not rows:
        raise InputError.of(f"{source}: nodes", rows, "a list of nodes with name and gpus")
    published: list[Json] = []
    found: dict[str, Node] = {}
    for number, row in enumerate(rows):
        for one in _nodes(row, f"{source}: nodes[{number}]", published):
            if one.name in found:
                raise InputError.of(f"{source}: nodes", one.name, "names that differ")
            found[one.name] = one
    return list(found.values()), published


def _nodes(row: Any, where: str, published: list[Json]) -> Iterator[Node]:
    values = _mapping(row, where, NODE_KEYS)
    name, count = str(values.get("name") or "node"), _count(values, where, MOST_NODES, 1)
    inventory = Inventory("", tuple(_views(values.get("gpus") or [], f"{where}.gpus", name)))
    config = _config(values.get("config") or DEFAULT, f"{where}.config")
    made = [
        {"kind": "ResourceSlice", "metadata": {"name": f"{number:06}"}, "spec": one}
        for number, one in enumerate(build(inventory, config, {}, {}, node=name))
    ]
    published += made
    plugin = len(inventory.gpus) if config.dra.allocation == "device_plugin" else 0
    has = {key: values[key] for key in ("cpu", "memory", "pods") if values.get(key) is not None}
    has |= values.get("extended") or ({GPU_RESOURCE: plugin} if plugin else {})
    raw = {"spec": {"taints": values.get("taints")}, "status": {"allocatable": has}}
    base = made_of(name, raw, made, f"{where}.")
    labels = {str(key): str(value) for key, value in (values.get("labels") or {}).items()}
    for each in [f"{name}-{number}" for number in range(count)] if "count" in values else [name]:
        # Nodes of one row have the same devices object, so that what is found for one holds for all.
        own = {"kubernetes.io/hostname": each, **labels}
        yield replace(base, name=each, labels=own, used={})


def _config(data: Any, where: str) -> configuration.Config:
    """Return a node's configuration; it is the daemon's, under the same keys."""
    if not isinstance(data, Mapping):
        raise InputError.of(where, data, "what the device plugin's configuration file has")
    return configuration.parse(yaml.safe_dump({"version": "v1", **data}), where)


def _views(rows: Any, where: str, node: str) -> Iterator[GpuView]:
    if not isinstance(rows, list):
        raise InputError.of(where, rows, "a list of GPUs")
    index = 0
    for number, row in enumerate(rows):
        place = f"{where}[{number}]"
        values = _mapping(row, place, GPU_KEYS)
        uuids = values.get("uuids") or []
        for which in range(_count(values, place, MOST_GPUS, max(1, len(uuids)))):
            uuid = str(uuids[which]) if which < len(uuids) else f"GPU-{node}-{index}"
            yield _view(values, place, index, uuid)
            index += 1
    if index > MOST_GPUS:
        raise InputError.of(where, index, f"at most {MOST_GPUS} GPUs")


def _view(values: Json, where: str, index: int, uuid: str) -> GpuView:
    name = str(values.get("product") or "GPU")
    key = known(name)
    given = values.get("memory")
    memory = KNOWN[key][0] * MIB if key else 0
    if given is not None or not key:
        need = "" if key else f", as it is none of {', '.join(KNOWN)}"
        expected = f"the GPU's memory, such as 32Gi{need}"
        memory = 0 if given is None else int(quantity.of(given, f"{where}.memory"))
        if not MIB <= memory <= MIB << 24:
            raise InputError.of(f"{where}.memory", given, expected)
    mig = bool(values.get("mig"))
    parts = profiles(key, memory // MIB) if mig else ()
    if mig and not parts:
        expected = "a product whose MIG profiles are known, such as H100 80GB"
        raise InputError.of(f"{where}.mig", name, expected)
    asked = values.get("computeCapability")
    major, _dot, minor = str(asked).partition(".")
    if asked is not None and not (major.isdigit() and minor.isdigit()):
        raise InputError.of(f"{where}.computeCapability", asked, "a version such as 9.0")
    capability = (KNOWN[key][1] if key else (8, 0)) if asked is None else (int(major), int(minor))
    bus = f"0000:{index + 1:02x}:00.0"
    gpu = Gpu(index, uuid, name, bus, index, memory, capability, mig, mig, mig, 0)
    numa = values.get("numaNode")
    return GpuView(gpu, numa_node=numa if isinstance(numa, int) else None, layout=Layout(parts))


def _mapping(data: Any, where: str, keys: Sequence[str]) -> Json:
    if not isinstance(data, Mapping):
        raise InputError.of(where, data, f"a mapping with {', '.join(keys)}")
    for key in data:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, 1)
            meant = f"; the nearest is {near[0]}" if near else ""
            expected = f"one of the keys {', '.join(keys)}{meant}"
            raise InputError.of(f"{where}.{key}", data[key], expected)
    return data


def _count(values: Json, where: str, most: int, default: int) -> int:
    value = values.get("count", default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError.of(f"{where}.count", value, f"a number from 1 to {most}")
    return value
