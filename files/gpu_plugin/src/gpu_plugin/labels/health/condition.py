# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The conditions of the node about its GPUs, and when one has to be written. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..._shared._node.gate import NOT_CHECKED, Gate
from .events import age, moment
from .faults import Faults

HEALTHY, ACCEPTED = TYPES = ("GPUHealthy", "gpu.node/Accepted")
HEARTBEAT: Final = 300.0  # seconds after which one that did not change is written again
PAUSE: Final = 10.0  # seconds between two changes
MOST: Final = 8  # devices that a message names
LONGEST: Final = 4000  # characters of a message
REMOVAL: Final = {"$patch": "delete"}
STRATEGIC: Final = "application/strategic-merge-patch+json"

Json = dict[str, Any]


def healthy(state: Mapping[str, Any] | None, faults: Faults | None) -> Json:
    """Return status, reason and message of the condition about the health of GPUs."""
    if state is None:
        return _of("Unknown", "PluginNotRunning", "the device plugin does not run on this node")
    if state.get("state") == "waiting_for_driver":
        return _of("Unknown", "DriverNotThere", str(state.get("problem") or "")[:1000])
    if faults is None:
        return _of("Unknown", "NotReported", "the device plugin does not say how the GPUs are")
    if not faults:
        return _of("True", "GPUsHealthy", "all GPUs are healthy")
    named = [f"{fault.device}: {fault.text}" for _place, fault in sorted(faults.items())]
    return _of("False", "GPUsUnhealthy", _listed(named))


def accepted(gate: Gate | None, boot: str) -> Json | None:
    """Return status, reason and message of the condition about a gate, None without a gate.

    It is True once the node may get work, also if some of its GPUs are held, and never for a node without a GPU.
    ``boot`` is the ID of the boot in which the gate has to be checked.
    """
    if gate is None:
        return None
    if gate.boot != boot:
        return _of("Unknown", "NotChecked", NOT_CHECKED)
    held = [f"GPU {uuid}: {entry.reason}" for uuid, entry in sorted(gate.gpus.items())]
    if gate.holds_node:
        named = [gate.node.reason] if gate.node else held
        return _of("False", "NotAccepted", _listed(named or ["no GPU of the node is accepted"]))
    status, reason, message = "True", "Accepted", "all GPUs are accepted"
    if held:
        reason, message = "SomeAccepted", f"{len(gate.open_gpus)} GPUs are accepted"
    if gate.override:
        reason = "AcceptedByOperator"
        message = (
            f"{len(gate.override.gpus)} GPUs are let in by an operator: {gate.override.reason}"
        )
    return _of(status, reason, _listed([message, *(f"held: {text}" for text in held)]))


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


def usable(memory: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the conditions that were written earlier, by type, without those that have another form."""
    written = memory.get("conditions")
    if not isinstance(written, dict):
        written = {HEALTHY: memory.get("condition")}  # as an earlier version kept it
    return {kind: written[kind] for kind in TYPES if _is_usable(written.get(kind))}


def _is_usable(before: object) -> bool:
    if not isinstance(before, dict) or not isinstance(before.get("at"), (int, float)):
        return False
    return all(isinstance(before.get(key), str) for key in ("status", "lastTransitionTime"))


def patch(kind: str, desired: Json) -> Json:
    """Return the patch that writes the condition of a type and no other; REMOVAL removes it."""
    return {"status": {"conditions": [{"type": kind, **desired}]}}


def _listed(texts: list[str]) -> str:
    more = [f"and {len(texts) - MOST} more"] if len(texts) > MOST else []
    return "; ".join([*texts[:MOST], *more])[:LONGEST]


def _of(status: str, reason: str, message: str) -> Json:
    return {"status": status, "reason": reason, "message": message}
