# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The probes of the daemon: whether it lives, and whether it does its work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..tools import status

STUCK: Final = 30.0  # as the unit's watchdog


def health(_state: Mapping[str, Any], age: float) -> str:
    """Return the problem of the daemon itself, empty if there is none; ``age`` is its state's, in seconds."""
    return f"the main loop has not gone round for {age:.0f} seconds" if age > STUCK else ""


def readiness(state: Mapping[str, Any], age: float) -> str:
    """Return what keeps pods from getting devices, empty if nothing does."""
    if problem := health(state, age):
        return problem
    if not state:
        return "starting"
    if state["problem"]:
        return str(state["problem"])
    resources = state["resources"]
    missing = ", ".join(name for name in resources if not resources[name]["registered"])
    return f"not registered with the kubelet: {missing}" if missing else ""


def problem(path: Path, *, ready: bool) -> str:
    """Return the problem of the daemon that writes this file, empty if there is none.

    It is for a pod: a probe of its own depends on no port that others reach.
    """
    try:
        age = status.age(path)
    except OSError as error:
        return f"{path}: {error.strerror}: the device plugin has not started, or has ended"
    state = status.load(path)
    if state is None:
        return f"{path}: the device plugin that wrote it does not run"
    return (readiness if ready else health)(state, age)
