# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes with and without the device plugin, and what is wanted of them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import (
    LABELS_UNIT,
    UNIT,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import (
    CONFIG,
    UNITS,
    DesiredPlugin,
    DraState,
    PluginFiles,
    PluginServices,
    PluginState,
    PythonState,
    ReleaseState,
    Service,
    ServingState,
)

PREFIX = "/opt/gpu-node"
MPS_UNIT = "gpu-mps.service"
NAMED = {UNIT: "[Unit]\n", MPS_UNIT: "[Unit]\n# MPS\n", LABELS_UNIT: "[Unit]\n# labels\n"}
WANTED = DesiredPlugin("started", "new", {CONFIG: "version: v1\n"}, NAMED)
FILES = {**WANTED.configs, **{f"{UNITS}/{name}": NAMED[name] for name in (UNIT, MPS_UNIT)}}
ON = {"ActiveState": "active", "UnitFileState": "enabled", "MainPID": "7"}
LABELS = {
    "output": "api",
    "kubeconfig": "",
    "node_name": "",
    "namespace": "",
    "extra": {},
    "default_config": "",
    "events": True,
    "condition": False,
    "mig_by_label": False,
}
STATUS = {
    "config_sha256": "abc",
    "state": "serving",
    "gpu_uuids": ["GPU-0"],
    "mig_uuids": ["MIG-0"],
    "resources": {"nvidia.com/gpu": {"registered": True}},
}
PARTS: dict[str, Any] = {
    "python": PythonState,
    "release": ReleaseState,
    "files": PluginFiles,
    "services": PluginServices,
    "serving": ServingState,
    "dra": DraState,
}
# The names by which tests change a state, with the part and the field that each is.
FIELDS = {field: (part, field) for part, kind in PARTS.items() for field in kind._fields}
RENAMED = {"python": "program", "files": "texts", "dra_late": "late"}
FIELDS |= {name: FIELDS.pop(field) for name, field in RENAMED.items()}
FRESH = PluginState(
    PythonState("python3", apt=True),
    ReleaseState(damage="it was not finished"),
    PluginFiles(),
    PluginServices(),
    ServingState(kubelet=True),
)


def changed(state: PluginState, **changes: Any) -> PluginState:
    """A state with other values, by the names of FIELDS."""
    for name, value in changes.items():
        part, field = FIELDS[name]
        state = state._replace(**{part: getattr(state, part)._replace(**{field: value})})
    return state


RUNNING = changed(
    FRESH,
    current="new",
    releases=("new",),
    damage="",
    files=FILES,
    daemon=Service(ON, {"GPU_NODE_RELEASE": "new"}),
    status=STATUS,
    config_digest="abc",
    devices=frozenset(["GPU-0", "MIG-0"]),
)


def fresh(**changes: Any) -> PluginState:
    return changed(FRESH, **changes)


def seen(**changes: Any) -> PluginState:
    return changed(RUNNING, **changes)


def with_files(**texts: str | None) -> dict[str, Any]:
    """The files of a node that runs, some of them with another text, or without them."""
    paths = {"config": CONFIG, "unit": f"{UNITS}/{UNIT}", "mps_unit": f"{UNITS}/{MPS_UNIT}"}
    files = {**FILES, **{paths[name]: text for name, text in texts.items()}}
    return {"files": {path: text for path, text in files.items() if text is not None}}


def daemon(release: str = "new", **properties: str) -> dict[str, Any]:
    return {"daemon": Service({**ON, **properties}, {"GPU_NODE_RELEASE": release})}


def actions(found: Plan) -> list[str]:
    """Each step's action, for a file with its name."""
    named = [(step.action, step.params.get("path", "").rpartition("/")[2]) for step in found.steps]
    return [" ".join(filter(None, pair)) for pair in named]
