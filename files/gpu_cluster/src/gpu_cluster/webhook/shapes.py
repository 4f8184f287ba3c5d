# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What of a pod is read, and of which kind each field is where an API server has sent it. Pure."""

from __future__ import annotations

from typing import Any, Final

# A type, several of them, [the shape of each item], {field: shape}, or {ANY: the shape of each value}.
ANY: Final = ""
_TEXTS: Final = {ANY: str}
_AMOUNTS: Final = {ANY: (str, int, float)}
_CONTAINERS: Final = [
    {
        "name": str,
        "restartPolicy": str,
        "env": [{"name": str, "value": str}],
        "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS, "claims": [dict]},
        "securityContext": {"privileged": bool},
    }
]
POD: Final = {
    "metadata": {"annotations": _TEXTS},
    "spec": {
        "schedulerName": str,
        "nodeName": str,
        "resourceClaims": [{"name": str}],
        "initContainers": _CONTAINERS,
        "containers": _CONTAINERS,
    },
}


def fits(data: Any, shape: Any) -> bool:
    """Tell whether data has a shape. A field may be missing, or null."""
    if isinstance(shape, list):
        return isinstance(data, list) and all(
            one is not None and fits(one, shape[0]) for one in data
        )
    if not isinstance(shape, dict):
        return isinstance(data, shape)
    if not isinstance(data, dict):
        return False
    if ANY in shape:
        return all(fits(one, shape[ANY]) for one in data.values())
    return all(data.get(key) is None or fits(data[key], one) for key, one in shape.items())
