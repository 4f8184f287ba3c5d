# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes that are described in a file: how many, with which GPUs, and how they are allocated."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import yaml
from gpu_plugin._shared._base.errors import InputError, NodeError
from gpu_plugin._shared._base.gpu import Gpu
from gpu_plugin._shared._base.text.shown import cut
from gpu_plugin.cluster import quantity
from gpu_plugin.config import configuration, plain_yaml
from gpu_plugin.config.sharing import GPU_RESOURCE
from gpu_plugin.model.inventory import GpuView, Inventory, Layout
from gpu_plugin.slices import build

from ...placement import slices
from ...placement.values import Devices
from ..values import Node
from .products import KNOWN, known, profiles

LIMITS: Final = plain_yaml.Limits(4 << 20, 100_000)
MOST_NODES, MOST_GPUS = 20_000, 64
NODE_KEYS: Final = (
    "name",
    "count",
    "gpus",
    "config",
    "cpu",
    "memory",
    "pods",
    "labels",
    "taints",
    "extended",
)
GPU_KEYS: Final = ("product", "count", "memory", "computeCapability", "mig", "numaNode", "uuids")
DEFAULT: Final = {"gpuNode": {"allocation": "dra"}}
MIB: Final = 1 << 20
Json = Mapping[str, Any]


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
    found = [
        one
        for number, row in enumerate(rows)
        for one in _nodes(row, f"{source}: nodes[{number}]", published)
    ]
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError.of(f"{source}: nodes", twice, "names that differ")
    return found, published


def _nodes(row: Any, where: str, published: list[Json]) -> Iterator[Node]:
    values = _mapping(row, where, NODE_KEYS)
    name, count = (
        str(values.get("name") or "node"),
        _whole(values, "count", where, 1, MOST_NODES, 1),
    )
    inventory = Inventory("", tuple(_views(values.get("gpus") or [], f"{where}.gpus", name)))
    config = _config(values.get("config") or DEFAULT, f"{where}.config")
    specs = build(inventory, config, {}, {}, node=name)
    made = [
        {"kind": "ResourceSlice", "metadata": {"name": f"{number:06}"}, "spec": one}
        for number, one in enumerate(specs)
    ]
    published += made
    devices = slices.devices(made)
    plugin = len(inventory.gpus) if config.dra.allocation == "device_plugin" else 0
    base = _plain(values, where, name, devices, plugin)
    if "count" not in values:
        yield base
        return
    for number in range(count):
        # Nodes of one row have the same devices object, so that what is found for one holds for all.
        labels = {**base.labels, "kubernetes.io/hostname": f"{name}-{number}"}
        yield replace(base, name=f"{name}-{number}", labels=labels, used_extended={})


def _plain(values: Json, where: str, name: str, devices: Devices, plugin: int) -> Node:
    given = {key: values.get(key) for key in ("cpu", "memory")}
    amounts = {
        key: None if one is None else quantity.of(one, f"{where}.{key}")
        for key, one in given.items()
    }
    labels = {str(key): str(value) for key, value in (values.get("labels") or {}).items()}
    extended = values.get("extended") or ({GPU_RESOURCE: plugin} if plugin else {})
    return Node(
        name,
        devices,
        labels={"kubernetes.io/hostname": name, **labels},
        taints=tuple(values.get("taints") or ()),
        cpu=amounts["cpu"],
        memory=amounts["memory"],
        most_pods=_whole(values, "pods", where, 1, 10_000, 110),
        extended={
            str(key): _whole(extended, key, f"{where}.extended", 0, 10**6, 0) for key in extended
        },
    )


def _config(data: Any, where: str) -> configuration.Config:
    """Return a node's configuration; it is the daemon's, under the same keys."""
    if not isinstance(data, Mapping):
        raise InputError.of(where, data, "what the device plugin's configuration file has")
    text = yaml.safe_dump({"version": "v1", **data})
    return configuration.parse(text, where)


def _views(rows: Any, where: str, node: str) -> Iterator[GpuView]:
    if not isinstance(rows, list):
        raise InputError.of(where, rows, "a list of GPUs")
    index = 0
    for number, row in enumerate(rows):
        place = f"{where}[{number}]"
        values = _mapping(row, place, GPU_KEYS)
        uuids = values.get("uuids") or []
        for which in range(_whole(values, "count", place, 1, MOST_GPUS, max(1, len(uuids)))):
            uuid = str(uuids[which]) if which < len(uuids) else f"GPU-{node}-{index}"
            yield _view(values, place, index, uuid)
            index += 1
    if index > MOST_GPUS:
        raise InputError.of(where, index, f"at most {MOST_GPUS} GPUs")


def _view(values: Json, where: str, index: int, uuid: str) -> GpuView:
    name = str(values.get("product") or "GPU")
    key = known(name)
    memory = _memory(values, where, key)
    mig = bool(values.get("mig"))
    parts = profiles(key, memory // MIB) if mig else ()
    if mig and not parts:
        raise InputError.of(
            f"{where}.mig", name, "a product whose MIG profiles are known, such as H100 80GB"
        )
    capability = _capability(values, where, key)
    bus = f"0000:{index + 1:02x}:00.0"
    gpu = Gpu(index, uuid, name, bus, index, memory, capability, mig, mig, mig, 0)
    numa = values.get("numaNode")
    return GpuView(gpu, numa_node=numa if isinstance(numa, int) else None, layout=Layout(parts))


def _memory(values: Json, where: str, key: str) -> int:
    given = values.get("memory")
    if given is None:
        if not key:
            raise InputError.of(
                f"{where}.memory",
                given,
                f"the GPU's memory, such as 32Gi, as it is none of {', '.join(KNOWN)}",
            )
        return KNOWN[key].memory * MIB
    value = quantity.of(given, f"{where}.memory")
    if not isinstance(value, int) or not MIB <= value <= MIB << 24:
        raise InputError.of(f"{where}.memory", given, "the GPU's memory, such as 32Gi")
    return value


def _capability(values: Json, where: str, key: str) -> tuple[int, int]:
    given = values.get("computeCapability")
    if given is None:
        return KNOWN[key].capability if key else (8, 0)
    major, _dot, minor = str(given).partition(".")
    if not major.isdigit() or not minor.isdigit():
        raise InputError.of(f"{where}.computeCapability", given, "a version such as 9.0")
    return int(major), int(minor)


def _mapping(data: Any, where: str, keys: Sequence[str]) -> Json:
    if not isinstance(data, Mapping):
        raise InputError.of(where, data, f"a mapping with {', '.join(keys)}")
    for key in data:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, 1)
            meant = f"; the nearest is {near[0]}" if near else ""
            raise InputError.of(
                f"{where}.{key}", data[key], f"one of the keys {', '.join(keys)}{meant}"
            )
    return data


def _whole(values: Json, key: str, where: str, least: int, most: int, default: int) -> int:
    value = values.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError.of(f"{where}.{key}", value, f"a number from {least} to {most}")
    return value
