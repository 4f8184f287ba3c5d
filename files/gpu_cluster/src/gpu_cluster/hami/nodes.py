# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""HAMi's settings of nodes, and the daemon's configuration that stands for them. Pure."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from gpu_plugin._shared._base.dra.names import BOTH, DRA
from gpu_plugin._shared._base.text import json_data
from gpu_plugin._shared._base.text.config_map import unwrap_hint
from gpu_plugin.config import plain_yaml
from gpu_plugin.config.strict_yaml import ConfigError, Value, invalid

from .settings import LIMITS, Settings

KEYS: Final = (
    *("name", "operatingmode", "devicememoryscaling", "devicesplitcount", "devicecorescaling"),
    *("migstrategy", "filterdevices", "enablegetpreferredallocation", "preconfigureddevicememory"),
    *("libcudaloglevel", "enablenumatopology"),
)
MODES: Final = ("hami-core", "mig", "mps")


@dataclass(frozen=True)
class HamiNode:
    """A node in HAMi's config.json; None for what it does not set."""

    split_count: int | None = None
    memory_scaling: float | None = None
    mode: str = ""
    left_out: tuple[str, ...] = ()  # GPUs by UUID or index that are not HAMi's


def parse(text: str, source: str) -> dict[str, HamiNode]:
    """Return the nodes of HAMi's config.json by name.

    Raises:
        ConfigError: if it is not valid.
    """
    try:
        data = json_data.loads(text)
    except ValueError as error:
        hint = ""
        with contextlib.suppress(yaml.YAMLError):  # a ConfigMap as kubectl shows it
            hint = unwrap_hint(plain_yaml.load(text, LIMITS))
        raise ConfigError(f"{source}: not valid JSON", cause=str(error), hint=hint) from error
    if hint := unwrap_hint(data):
        raise ConfigError(f"{source}: not HAMi's config.json", hint=hint)
    rows = data.get("nodeconfig") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise invalid(f"{source}: nodeconfig", rows, "a list of mappings")
    nodes: dict[str, HamiNode] = {}
    for number, row in enumerate(rows):
        where = f"{source}: nodeconfig[{number}]"
        name = row.get("name")
        if not isinstance(name, str) or not name:
            raise invalid(f"{where}.name", name, "the name of a node")
        for key in row:
            if key not in KEYS:
                expected = f"one of the keys {', '.join(KEYS)}"
                raise invalid(f"{where}.{key}", row[key], expected)
        nodes[name] = _node(row, f"nodeconfig[{number}]", source)
    return nodes


def shown(settings: Settings, node: HamiNode, name: str) -> str:
    """Return the part of the daemon's configuration that has the same effect on a node as HAMi's, as YAML."""
    split = node.split_count or settings.split_count or 10
    scaling = node.memory_scaling or settings.memory_scaling or 1.0
    lines = [
        f"# {name}, from HAMi's configuration",
        "gpuNode:",
        f"  allocation: {BOTH if node.left_out else DRA}",
    ]
    lines += ["  dra:", f"    splitCount: {split}", f"    memoryScaling: {scaling:g}"]
    if scaling > 1:
        lines += [
            "    oversubscribe: best-effort # as nothing pages memory out: see docs/fractions/hami.md"
        ]
    if node.left_out:
        left_out = json.dumps(list(node.left_out))
        lines += [
            f"    devices: [] # name the node's GPUs other than {left_out}, which HAMi left out",
            "# The device plugin gives those to pods. To give them to nobody: see docs/repair/quarantine.md",
        ]
    if node.mode == "mig":
        lines += [
            "# operatingmode mig: switch MIG mode on with gpu.node.mig; profiles are made as claims ask for them"
        ]
    return "\n".join(lines) + "\n"


def _node(row: Mapping[str, Any], at: str, source: str) -> HamiNode:
    def amount(key: str) -> Value | None:
        return None if row.get(key) is None else Value(f"{at}.{key}", row[key], source)

    split, scaling, mode = map(amount, ("devicesplitcount", "devicememoryscaling", "operatingmode"))
    return HamiNode(
        split.whole(1000) if split else None,
        scaling.factor() if scaling else None,
        mode.one_of(MODES) if mode and mode.data else "",
        _left_out(row, f"{source}: {at}"),
    )


def _left_out(row: Mapping[str, Any], where: str) -> tuple[str, ...]:
    filtered = row.get("filterdevices") or {}
    if not isinstance(filtered, dict) or not set(filtered) <= {"uuid", "index"}:
        raise invalid(f"{where}.filterdevices", filtered, "the lists uuid and index")
    values = [*(filtered.get("uuid") or ()), *(filtered.get("index") or ())]
    return tuple(str(value) for value in values)
