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
    found = (state or {}).get("health")
    if not isinstance(found, list):
        return None
    known: dict[str, Fault] = {}
    for one in found[:MOST]:
        if not isinstance(one, Mapping) or not isinstance(one.get("gpu"), str):
            continue
        place, text = _place(one), _text(one)
        before = known.get(place)
        known[place] = Fault(_device(one), cut(f"{before.text}; {text}" if before else text))
    return known


def _place(one: Mapping[str, Any]) -> str:
    return "/".join(str(one.get(key)) for key in ("gpu", "gi", "ci") if one.get(key) is not None)


def _device(one: Mapping[str, Any]) -> str:
    index = _words(one.get("index"))
    name = f"GPU {index} ({_words(one['gpu'])})" if index else f"GPU {_words(one['gpu'])}"
    if one.get("gi") is None:
        return name
    return f"MIG instance {_words(one['gi'])}/{_words(one.get('ci'))} of {name}"


def _text(one: Mapping[str, Any]) -> str:
    reason, way = _words(one.get("reason")) or "it is unfit", _words(one.get("way_back"))
    verdict = ACTIONS.get(str(one.get("verdict")), Action.NONE)
    return str(Problem(Kind.FAULT, reason, recovery=way, verdict=verdict))


def _words(value: object) -> str:
    return "" if value is None else printable(str(value))[:LONGEST]
