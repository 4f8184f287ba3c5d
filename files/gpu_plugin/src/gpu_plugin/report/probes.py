# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the daemon lives, and whether it does its work. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

STUCK: Final = 30.0  # as the unit's watchdog


def health(state: Mapping[str, Any], age: float) -> str:
    """Return what is wrong with the daemon itself, or nothing; ``age`` is its state's, in seconds."""
    del state
    return f"the main loop has not gone round for {age:.0f} seconds" if age > STUCK else ""


def readiness(state: Mapping[str, Any], age: float) -> str:
    """Return what keeps pods from getting devices, or nothing."""
    if problem := health(state, age):
        return problem
    if not state:
        return "starting"
    if state["problem"]:
        return str(state["problem"])
    missing = [name for name, one in state["resources"].items() if not one["registered"]]
    if missing:
        return f"not registered with the kubelet: {', '.join(missing)}"
    return ""
