# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The settings that DCGM's configuration enforces, from the output of dcgmi.

They are in the host engine, which sets them again after a reset of a GPU. DCGM has numbers of its own for GPUs.
"""

from __future__ import annotations

import json
import re
import typing as t

from .._base.errors import NodeError
from .._base.gpu import (
    CLOCKS,
    COMPUTE,
    ECC,
    GPU_CLOCKS,
    MEMORY_CLOCKS,
    POWER,
    POWER_PROFILES,
    Range,
    Value,
    profile_name,
)
from .._base.text import json_data
from .state import GpuState, shown

PROGRAM = "dcgmi"
CONFIGURED = (PROGRAM, "config", "--get", "--verbose", "--json")
LISTED = (PROGRAM, "discovery", "--list")
SECONDS = 20.0
SETS = (POWER, POWER_PROFILES, *CLOCKS, ECC, COMPUTE)
MODES = {"Unrestricted": "default", "Prohibited": "prohibited", "E. Process": "exclusive_process"}
SWITCHES = {"Enabled": True, "Disabled": False}
HEADER = re.compile(r"GPU ID: ([0-9]{1,4})")
# A row of the list of GPUs; further rows of a GPU have no number.
ROW = re.compile(r"^\| *([0-9]{1,4})? *\|(?: Device UUID: (\S+))?", re.MULTILINE)
NUMBER = re.compile("[0-9]{1,6}")
NUMBERS = re.compile("[0-9]{1,3}(,[0-9]{1,3})*")

Targets = t.Dict[str, Value]


def _clock(text: str) -> t.Optional[Range]:
    """Return an application clock as a range of this clock alone; 0 is none."""
    return (int(text), int(text)) if NUMBER.fullmatch(text) and int(text) else None


def _milliwatts(text: str) -> t.Optional[int]:
    return int(text) * 1000 if NUMBER.fullmatch(text) else None


def _profiles(text: str) -> Value:
    if not NUMBERS.fullmatch(text):
        return None
    return tuple(map(profile_name, sorted(map(int, text.split(",")))))


# By dcgmi's names. A text such as "Not Specified" is no value.
ROWS: t.Mapping[str, t.Tuple[str, t.Callable[[str], Value]]] = {
    "Compute Mode": (COMPUTE, MODES.get),
    "ECC Mode": (ECC, SWITCHES.get),
    "Memory Application Clock": (MEMORY_CLOCKS, _clock),
    "SM Application Clock": (GPU_CLOCKS, _clock),
    "Power Limit": (POWER, _milliwatts),
    "Power Profile": (POWER_PROFILES, _profiles),
}


def targets(text: str) -> t.Dict[int, Targets]:
    """Return the enforced settings of each GPU, by DCGM's numbers, without values that are not specified or known."""
    result, decoder, at = {}, json.JSONDecoder(), 0
    text = text[: json_data.LONGEST]
    while "{" in text[at:]:
        at = text.index("{", at)
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        header = (json_data.rows(document.get("header")) or [""])[0]
        number = HEADER.fullmatch(json_data.text(header))
        desired: Targets = {}
        body = json_data.table(document.get("body"))
        for row, (name, read) in ROWS.items():
            cells = json_data.table(json_data.table(body.get(row)).get("children"))
            value = read(json_data.text(json_data.table(cells.get("Target")).get("value")))
            if value is not None:
                desired[name] = value
        if number and desired:
            result[int(number[1])] = desired
    return result


def uuids(text: str) -> t.Dict[int, str]:
    """Return the UUIDs of the GPUs in DCGM's list, by its numbers."""
    result, number = {}, ""
    for row in ROW.finditer(text[: json_data.LONGEST]):
        number = row[1] or number
        if row[2] and number:
            result[int(number)] = row[2]
    return result


def refuse(state: GpuState, name: str, value: Value, enforced: Value) -> None:
    """Refuse a value if DCGM enforces another one; a range of clocks may include the enforced clock."""
    if enforced is None or _fits(name, value, enforced):
        return
    raise NodeError(
        f"{state.named}: {name} can't be set to {shown(name, value)}",
        cause=f"DCGM's configuration enforces {shown(name, enforced)}, and sets it again after a reset of the GPU",
        hint=(
            f"leave {name} out of the rules for the GPU, set the same with dcgmi config --set, or let DCGM forget its "
            "configuration: it is gone with a restart of its host engine (systemctl restart nvidia-dcgm)"
        ),
    )


def _fits(name: str, value: Value, enforced: Value) -> bool:
    if name in CLOCKS and isinstance(enforced, tuple):
        clocks = t.cast(t.Optional[Range], value)
        return clocks is None or clocks[0] <= t.cast(Range, enforced)[0] <= clocks[1]
    return value == enforced
