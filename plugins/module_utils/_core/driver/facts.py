# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a user is told of a node, besides what is to be done to it."""

from __future__ import annotations

import typing as t

from .state import Observed


def facts(observed: Observed) -> t.Dict[str, t.Any]:
    """Return the node's hardware, kernel, firmware, services and GPU clients, JSON-able."""
    key = observed.signing_key
    return {
        "gpus": dict(observed.gpus),
        "nvswitch": observed.nvswitch,
        "kernel": observed.kernel,
        "headers": observed.headers,
        "held": sorted(name for name in observed.names.relevant if observed.held(name)),
        "nouveau": _nouveau(observed),
        "kernels_without_driver": list(observed.modules.bare),
        "stale_initramfs": list(observed.modules.stale),
        "secure_boot": key is not None,
        "signing_key": key.path if key else "",
        "signing_key_state": key.state if key else "",
        "libraries": list(observed.libraries),
        "firmware": list(observed.firmware),
        "persistence_daemon": observed.service.get("ActiveState", ""),
        "fabric_manager": observed.fabric.get("ActiveState", ""),
        "gpu_users": list(observed.users),
    }


def _nouveau(observed: Observed) -> str:
    if observed.nouveau:
        return "loaded"
    if not observed.modules.nouveau:
        return "absent"
    own = observed.modules.own or ""
    return "blacklisted" if observed.modules.blacklisted or "nouveau" in own else "available"
