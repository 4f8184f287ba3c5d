# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the plugin's status file says of GPUs that are unhealthy. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..._shared._base.text.shown import cut, printable
from ..._shared._repair.signs import ACTIONS, Action
from ...model.inventory import Kind, Problem

MOST: Final = 256  # devices
LONGEST: Final = 400  # characters of one fault


@dataclass(frozen=True)
class Fault:
    """A device that is unhealthy, and why with what brings it back, both in words."""

    device: str
    text: str


Faults = Mapping[str, Fault]  # by place


def faults(state: Mapping[str, Any] | None) -> Faults | None:
    """Return what is unhealthy now; None where no plugin says it, such as one of an earlier version."""
    health = (state or {}).get("health")
    if not isinstance(health, list):
        return None
    known: dict[str, Fault] = {}
    for fault in health[:MOST]:
        if not isinstance(fault, Mapping) or not isinstance(fault.get("gpu"), str):
            continue
        place, text = _place(fault), _text(fault)
        before = known.get(place)
        known[place] = Fault(_device(fault), cut(f"{before.text}; {text}" if before else text))
    return known


def _place(fault: Mapping[str, Any]) -> str:
    return "/".join(
        str(fault.get(key)) for key in ("gpu", "gi", "ci") if fault.get(key) is not None
    )


def _device(fault: Mapping[str, Any]) -> str:
    index = _printable(fault.get("index"))
    name = (
        f"GPU {index} ({_printable(fault['gpu'])})" if index else f"GPU {_printable(fault['gpu'])}"
    )
    if fault.get("gi") is None:
        return name
    return f"MIG instance {_printable(fault['gi'])}/{_printable(fault.get('ci'))} of {name}"


def _text(fault: Mapping[str, Any]) -> str:
    reason, way_back = (
        _printable(fault.get("reason")) or "it is unfit",
        _printable(fault.get("way_back")),
    )
    verdict = ACTIONS.get(str(fault.get("verdict")), Action.NONE)
    return str(Problem(Kind.FAULT, reason, recovery=way_back, verdict=verdict))


def _printable(value: object) -> str:
    return "" if value is None else printable(str(value))[:LONGEST]
