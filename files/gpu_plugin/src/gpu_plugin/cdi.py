# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI devices that NVIDIA's plugin answers with, made of those that the node describes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import yaml

SOURCE_KIND: Final = "nvidia.com/gpu"
VENDOR: Final = "k8s.device-plugin.nvidia.com"
KIND: Final = f"{VENDOR}/gpu"
FOLDERS: Final = ("etc/cdi", "var/run/cdi")  # the runtimes' own, the later wins
FILE: Final = f"var/run/cdi/{VENDOR}-gpu.json"


def qualified(name: str) -> str:
    """Return a device's name as a container runtime is told it."""
    return f"{KIND}={name}"


def derive(texts: Iterable[str]) -> dict[str, Any] | None:
    """Return the specification under the plugin's own kind; None where the node describes no GPU.

    ``texts`` are the node's specifications, the one that wins last. Who writes them knows the
    driver's files, the MIG layout and the hooks; a second opinion would only differ from it.
    """
    found = [spec for spec in map(_read, texts) if spec and spec.get("kind") == SOURCE_KIND]
    return {**found[-1], "kind": KIND} if found else None


def names(spec: dict[str, Any] | None) -> frozenset[str]:
    """Return the names of a specification's devices."""
    return frozenset(str(one.get("name")) for one in (spec or {}).get("devices") or ())


def _read(text: str) -> dict[str, Any] | None:
    try:
        spec = json.loads(text)
    except ValueError:
        try:
            spec = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError):
            return None
    good = isinstance(spec, dict) and isinstance(spec.get("devices"), list)
    return spec if good and all(isinstance(one, dict) for one in spec["devices"]) else None
