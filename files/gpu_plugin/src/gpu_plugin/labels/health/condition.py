# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's condition GPUHealthy, and when it has to be written. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .events import age, moment
from .faults import Faults

TYPE: Final = "GPUHealthy"
HEARTBEAT: Final = 300.0  # seconds after which one that did not change is written again
PAUSE: Final = 10.0  # seconds between two changes
MOST: Final = 8  # faults that a message names
REMOVAL: Final = {"$patch": "delete"}
STRATEGIC: Final = "application/strategic-merge-patch+json"

Json = dict[str, Any]


def condition(state: Mapping[str, Any] | None, faults: Faults | None) -> Json:
    """Return status, reason and message."""
    if state is None:
        return _of("Unknown", "PluginNotRunning", "the device plugin does not run on this node")
    if state.get("state") == "waiting_for_driver":
        return _of("Unknown", "DriverNotThere", str(state.get("problem") or "")[:1000])
    if faults is None:
        return _of("Unknown", "NotReported", "the device plugin does not say how the GPUs are")
    if not faults:
        return _of("True", "GPUsHealthy", "all GPUs are healthy")
    named = [f"{fault.device}: {fault.text}" for _place, fault in sorted(faults.items())]
    more = [f"and {len(named) - MOST} more"] if len(named) > MOST else []
    return _of("False", "GPUsUnhealthy", "; ".join([*named[:MOST], *more])[:4000])


def due(
    desired: Json, before: Mapping[str, Any], seconds: float, spread: float = 1.0
) -> Json | None:
    """Return the condition to write after an earlier one, None if nothing has to be written.

    ``spread`` lengthens the time between two that are the same, so that nodes do not keep in step.
    """
    is_same = all(before.get(key) == text for key, text in desired.items())
    if before and age(before, seconds) < (HEARTBEAT * spread if is_same else PAUSE):
        return None
    turned = before.get("status") != desired["status"]
    since = moment(seconds) if turned else before["lastTransitionTime"]
    return {**desired, "lastHeartbeatTime": moment(seconds), "lastTransitionTime": since}


def usable(before: object) -> Json:
    """Return the condition that was written earlier, empty if the data has another form."""
    if not isinstance(before, dict) or not isinstance(before.get("at"), (int, float)):
        return {}
    whole = all(isinstance(before.get(key), str) for key in ("status", "lastTransitionTime"))
    return before if whole else {}


def patch(desired: Json) -> Json:
    """Return the patch that writes this condition and no other; REMOVAL removes it."""
    return {"status": {"conditions": [{"type": TYPE, **desired}]}}


def _of(status: str, reason: str, message: str) -> Json:
    return {"status": status, "reason": reason, "message": message}
