# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The DeviceClasses that this collection's manifests have, for where there is no cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpu_plugin._shared._base.dra.names import (
    DRIVER,
    GPU,
    GPU_CLASS,
    MIG,
    MIG_CLASS,
    SHARE,
    SHARE_CLASS,
)
from gpu_plugin.config.sharing import GPU_RESOURCE


def _class(name: str, kind: str, resource: str | None = None) -> dict[str, Any]:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


CLASSES: Final[Mapping[str, Mapping[str, Any]]] = {
    GPU_CLASS: _class(GPU_CLASS, GPU, GPU_RESOURCE),
    MIG_CLASS: _class(MIG_CLASS, MIG),
    SHARE_CLASS: _class(SHARE_CLASS, SHARE),
}
