# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The settings of GPUs, and the record of those that they had before and of locked clocks."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from .._base.errors import readable
from .._base.gpu import (
    CLOCKS,
    COMPUTE_MODES,
    NAMES,
    POWER,
    POWER_PROFILES,
    Gpu,
    Range,
    SettingsTold,
    Value,
    profile_number,
)
from .._base.services import settings
from .._base.text import json_data, strict

PATH = settings.RECORD
VERSION = 1
MOST_GPUS = 1024
MOST_NUMBER = 10**9
FORGET = "move it away and run again; what the GPUs are set to then counts as your own"


class Lock(t.NamedTuple):
    """Clocks that were locked, with the load of the driver and the GPU's energy at that time, if it has a reading."""

    clocks: Range
    load: str
    energy: t.Optional[int] = None


class Kept(t.NamedTuple):
    """The record of a GPU that was set: the settings that it had before, and the clocks that were locked."""

    before: t.Mapping[str, Value] = {}
    locks: t.Mapping[str, Lock] = {}


NOTHING = Kept()
Record = t.Mapping[str, Kept]  # by the GPUs' UUIDs


@dataclasses.dataclass(frozen=True)
class GpuState:
    """A GPU.

    Attributes:
        reported: The settings that the driver reports.
        values: The settings; that of clocks is their lock, None for none.
        record: The record of the GPU.
        users: The processes and pods that use it.
        mps: Whether MPS shares it.
        aside: Why it is left alone in quarantine, empty if it isn't.
        partitioned: Whether a MIG layout will bring it into MIG mode or out of it, None for neither.
        fenced: Whether a repair has set it aside.
    """

    gpu: Gpu
    reported: SettingsTold
    values: t.Mapping[str, Value]
    record: Kept = NOTHING
    users: t.Tuple[str, ...] = ()
    mps: bool = False
    aside: str = ""
    partitioned: t.Optional[bool] = None
    fenced: bool = False

    @property
    def named(self) -> str:
        """Return the GPU's index and UUID for messages."""
        return f"GPU {self.gpu.index} ({self.gpu.uuid})"


def current_values(reported: SettingsTold, record: Kept, load: str) -> t.Dict[str, Value]:
    """Return the settings of a GPU. Clocks count as locked as in the record, unless the lock is known to be lost.

    A lock is lost with the load of the driver and with a reset, after which the GPU counts its energy from 0. It is
    also lost if the running clock is beyond it.
    """
    locks: t.Dict[str, Value] = dict.fromkeys(reported.clocks)
    for name, lock in record.locks.items():
        runs = reported.running.get(name, 0)
        counted = None in (lock.energy, reported.energy) or reported.energy >= lock.energy  # type: ignore[operator]
        if name in locks and lock.load == load and counted and runs <= lock.clocks[1]:
            locks[name] = lock.clocks
    return {**reported.present, **locks}


def shown(name: str, value: Value) -> str:
    """Return a value for messages."""
    if name in CLOCKS:
        return f"{value[0]} to {value[1]} MHz" if isinstance(value, tuple) else "not locked"
    if name == POWER and isinstance(value, int):
        return f"{value / 1000:g} W"
    if name == POWER_PROFILES and isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return {True: "on", False: "off"}.get(t.cast(bool, value), str(value).replace("_", " "))


def dump(record: Record) -> str:
    """Return the file's text."""
    gpus = {
        uuid: {
            "before": dict(gpu_record.before),
            "locks": {name: lock._asdict() for name, lock in gpu_record.locks.items()},
        }
        for uuid, gpu_record in record.items()
    }
    return json.dumps({"version": VERSION, "gpus": gpus}, indent=1, sort_keys=True) + "\n"


def parse(text: t.Optional[str]) -> t.Dict[str, Kept]:
    """Return the record from the file's text.

    Raises:
        NodeError: if it is damaged.
    """
    if text is None:
        return {}
    with readable(PATH, FORGET):
        data = strict.keys("the file", json_data.loads(text), "version", "gpus")
        strict.version(data["version"], VERSION)
        rows = strict.by_uuid("gpus", data["gpus"], MOST_GPUS, "GPUs")
        return {uuid: _parse_gpu(uuid, row) for uuid, row in rows.items()}


def _parse_gpu(uuid: str, data: object) -> Kept:
    row = strict.keys(uuid, data, "before", "locks")
    before, locks = row["before"], row["locks"]
    if not set(before) <= set(NAMES) or not set(locks) <= set(CLOCKS):
        raise ValueError(f"{uuid}: expected settings out of {', '.join(NAMES)}")
    return Kept(
        {name: _value(name, value) for name, value in before.items()},
        {name: _lock(name, lock) for name, lock in locks.items()},
    )


def _lock(name: str, data: object) -> Lock:
    row = strict.keys(name, data, "clocks", "load", "energy")
    energy = row["energy"]
    if energy is not None and not json_data.is_whole(energy):
        raise ValueError(f"{name}: energy is no whole number")
    return Lock(_range(name, row["clocks"]), strict.text("load", row["load"]), energy)


def _value(name: str, value: t.Any) -> Value:
    if name in CLOCKS:
        return None if value is None else _range(name, value)
    if name == POWER_PROFILES:
        if not all(profile_number(profile) is not None for profile in value):
            raise ValueError(f"{name}: expected names of power profiles")
        return tuple(value)
    good = isinstance(value, bool)
    if name == POWER:
        good = json_data.is_whole(value) and 0 <= value <= MOST_NUMBER
    elif name == "compute_mode":
        good = value in COMPUTE_MODES
    if not good:
        raise ValueError(f"{name}: a value is not understood")
    return t.cast(Value, value)


def _range(name: str, value: t.Any) -> Range:
    numbers = [json_data.is_whole(clock) and 0 <= clock <= MOST_NUMBER for clock in value]
    if len(numbers) != 2 or not all(numbers):
        raise ValueError(f"{name}: expected two clocks")
    return value[0], value[1]
