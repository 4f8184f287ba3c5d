# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The unhealthy GPUs in the device plugin's status file. Pure."""

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
    """A device that is unhealthy, and why with its recovery, both in words."""

    device: str
    text: str


Faults = Mapping[str, Fault]  # by place


def faults(state: Mapping[str, Any] | None) -> Faults | None:
    """Return what is unhealthy, None if no plugin reports it, such as one of an earlier version."""
    health = (state or {}).get("health")
    if not isinstance(health, list):
        return None
    known: dict[str, Fault] = {}
    for fault in health[:MOST]:
        if not isinstance(fault, Mapping) or not isinstance(fault.get("gpu"), str):
            continue
        at = (fault.get(key) for key in ("gpu", "gi", "ci"))
        place = "/".join(str(part) for part in at if part is not None)
        reason = _printable(fault.get("reason")) or "it is unfit"
        recovery = _printable(fault.get("way_back"))
        verdict = ACTIONS.get(str(fault.get("verdict")), Action.NONE)
        text = str(Problem(Kind.FAULT, reason, recovery=recovery, verdict=verdict))
        before = known.get(place)
        known[place] = Fault(_device(fault), cut(f"{before.text}; {text}" if before else text))
    return known


def _device(fault: Mapping[str, Any]) -> str:
    index, uuid = _printable(fault.get("index")), _printable(fault["gpu"])
    name = f"GPU {index} ({uuid})" if index else f"GPU {uuid}"
    if fault.get("gi") is None:
        return name
    return f"MIG instance {_printable(fault['gi'])}/{_printable(fault.get('ci'))} of {name}"


def _printable(value: object) -> str:
    return "" if value is None else printable(str(value))[:LONGEST]
