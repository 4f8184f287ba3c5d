# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The devices of a node, from its ResourceSlices (resource.k8s.io/v1, as JSON), and what claims have of them. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import ceil
from typing import Any, NamedTuple

from gpu_plugin._shared._base.errors import InputError
from gpu_plugin.model import quantity
from gpu_plugin.model.quantity import Number

from . import selectors

Json = Mapping[str, Any]
Amounts = tuple[tuple[str, Number], ...]
Counters = dict[tuple[str, str], Number]  # by set and counter


@dataclass(frozen=True)
class Capacity:
    """A capacity of a device, and which amounts of it may be requested (its requestPolicy)."""

    value: Number
    default: Number | None = None
    least: Number | None = None
    most: Number | None = None
    step: Number | None = None
    valid: tuple[Number, ...] = ()

    def taken(self, asked: Number | None) -> Number | None:
        """Return what a request takes, rounded up as the policy says; None where that does not allow it."""
        if asked is None:
            amount = self.value if self.default is None else self.default
        elif self.least is None:
            amount = next((one for one in self.valid if asked <= one), asked)
        elif self.step is None or asked <= self.least:
            amount = max(asked, self.least)
        else:
            first, width = ceil(self.least), ceil(self.step)
            amount = first + -(-(ceil(asked) - first) // width) * width
        return amount if amount == self.default or self._allows(amount) else None

    def _allows(self, amount: Number) -> bool:
        if self.least is self.most is self.step is None:
            return not self.valid or amount in self.valid
        if self.most is not None and amount > self.most:
            return False
        return self.step is None or (ceil(amount) - ceil(self.least or 0)) % ceil(self.step) == 0


class Device(NamedTuple):
    """A device of a pool; its attributes are as published, by qualified name, ``seen`` is what selectors see."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Json]
    capacities: Mapping[str, Capacity]
    consumes: tuple[tuple[tuple[str, str], Number], ...]
    multiple: bool
    taints: tuple[Json, ...]
    seen: Json


@dataclass(frozen=True, eq=False)
class Pool:
    """The devices of a pool that a node can use, in the order in which they are tried.

    ``problem`` says why nothing is allocated from it, ``elsewhere`` what of that is seen when a pod is tried on other
    nodes, for which counters alone are gathered (ALL_POOLS in dra/versions.py).
    """

    driver: str
    name: str
    devices: tuple[Device, ...] = ()
    counters: Counters = field(default_factory=dict)
    problem: str = ""
    elsewhere: str = ""


class Devices:
    """All pools of a node, in the order in which they are tried, and their devices in one row."""

    def __init__(self, pools: Iterable[Pool] = ()) -> None:
        self.pools = tuple(pools)
        self.row = tuple(device for pool in self.pools for device in pool.devices)
        self.pool_of = tuple(pool for pool in self.pools for _device in pool.devices)
        self.index = {(one.driver, one.pool, one.name): at for at, one in enumerate(self.row)}


@dataclass(frozen=True)
class Use:
    """What is allocated of a node's devices, by their index: as a whole, or by shares with so much of capacities."""

    busy: frozenset[int] = frozenset()
    shared: tuple[tuple[int, Amounts], ...] = ()

    @cached_property
    def capacity(self) -> dict[int, dict[str, Number]]:
        """What shares have of each device."""
        return {index: dict(amounts) for index, amounts in self.shared if amounts}

    def plus(self, taken: Iterable[tuple[int, Amounts | None]]) -> Use:
        """Return what is in use with these devices too: as a whole (None), or a share's capacities."""
        busy, shared = set(self.busy), {index: dict(amounts) for index, amounts in self.shared}
        for index, amounts in taken:
            if amounts is None:
                busy.add(index)
                continue
            sums = shared.setdefault(index, {})
            for name, amount in amounts:
                sums[name] = sums.get(name, 0) + amount
        rows = tuple((index, tuple(sorted(of.items()))) for index, of in sorted(shared.items()))
        return Use(frozenset(busy), rows)

    def drawing(self) -> frozenset[int]:
        """Return the devices whose counters are consumed."""
        return self.busy | {index for index, _amounts in self.shared}


def allocated(results: Iterable[Json], devices: Devices) -> Use:
    """Return what is in use of a node's devices by results of claims; those of other nodes do not count."""
    taken: list[tuple[int, Amounts | None]] = []
    for one in results:
        index = devices.index.get((one["driver"], one["pool"], one["device"]))
        if index is not None and not one.get("adminAccess"):
            consumed = amounts(one.get("consumedCapacity"), "consumedCapacity.")
            taken.append((index, tuple(consumed.items()) if one.get("shareID") else None))
    return Use().plus(taken)


def results(claim: Json) -> Iterable[Json]:
    """Return the devices that a claim has."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()


@lru_cache(maxsize=16)
def left(pool: Pool, devices: Devices, use: Use) -> Counters:
    """Return what allocated devices leave of a pool's counters; less than nothing where a slice has shrunk."""
    counts = dict(pool.counters)
    for index in use.drawing():
        if devices.pool_of[index] is pool:
            for name, amount in devices.row[index].consumes:
                if name in counts:
                    counts[name] -= amount
    return counts


def by_node(slices: Iterable[Json]) -> dict[str, list[Json]]:
    """Return the slices of each node. Those that are not of one node are under an empty name."""
    nodes: dict[str, list[Json]] = {}
    for one in slices:
        nodes.setdefault(str(one["spec"].get("nodeName") or ""), []).append(one)
    return nodes


def read(slices: Iterable[Json]) -> Devices:
    """Return the devices of the node whose slices these are, in the order of Kubernetes' allocator.

    That is by driver, pool, slice name, and then as the slice lists them; pools that bind later come last.
    InputError: a slice can't be understood.
    """
    pools: dict[tuple[str, str], list[Json]] = {}
    for one in sorted(slices, key=lambda one: str((one.get("metadata") or {}).get("name", ""))):
        spec = one["spec"]
        pools.setdefault((str(spec["driver"]), str(spec["pool"]["name"])), []).append(spec)
    built = [_pool(*names, of) for names, of in sorted(pools.items())]
    return Devices(one for _later, one in sorted(built, key=lambda pair: pair[0]))


def broken(nodes: Iterable[Devices]) -> Pool | None:
    """Return a pool, if there is one, for which no node gives all of its devices."""
    pools = (pool for one in dict.fromkeys(nodes) for pool in one.pools)
    return next((one for one in pools if one.elsewhere), None)


def _pool(driver: str, name: str, specs: list[Json]) -> tuple[bool, Pool]:
    newest = max(int(one["pool"].get("generation", 0)) for one in specs)
    specs = [one for one in specs if int(one["pool"].get("generation", 0)) == newest]
    wanted = int(specs[0]["pool"]["resourceSliceCount"])
    sets = [one for spec in specs for one in spec.get("sharedCounters") or ()]
    if len(specs) != wanted:
        why = f"{len(specs)} of {wanted} slices of generation {newest} are there"
        return False, Pool(driver, name, problem=why, elsewhere=why if sets else "")
    rows = [spec.get("devices") or () for spec in specs if not spec.get("sharedCounters")]
    raw = [one for row in rows for one in row]
    counters = {
        (str(one["name"]), counter): value
        for one in sets
        for counter, value in amounts(one.get("counters"), f"{one['name']}.").items()
    }
    found = tuple(_device(driver, name, one) for one in raw)
    names = Counter(one.name for one in found)
    twice = next((f"two devices have the name {one}" for one in names if names[one] > 1), "")
    wrong = _wrong_counters(found, sets, counters)
    later = any(one.get("bindingConditions") is not None for one in raw)
    return later, Pool(driver, name, found, counters, twice or wrong, wrong if sets else "")


def _wrong_counters(found: Iterable[Device], sets: list[Json], counters: Counters) -> str:
    if len({one["name"] for one in sets}) < len(sets):
        return "two counter sets have one name"
    for one in found:
        for (of, name), _amount in one.consumes:
            if (of, name) not in counters:
                return f"{one.name} consumes counters of {of} that are not there"
    return ""


def _device(driver: str, pool: str, raw: Json) -> Device:
    name, multiple = str(raw["name"]), bool(raw.get("allowMultipleAllocations"))
    attributes = {
        _qualified(str(key), driver): of for key, of in (raw.get("attributes") or {}).items()
    }
    capacities = _capacities(json.dumps(raw.get("capacity") or {}))
    seen = {
        "device.driver": driver,
        "device.allowMultipleAllocations": multiple,
        "device.attributes": _domains({key: _value(key, of) for key, of in attributes.items()}),
        "device.capacity": _domains(
            {_qualified(key, driver): selectors.amount(of.value) for key, of in capacities.items()}
        ),
    }
    consumes = tuple(
        ((str(of["counterSet"]), counter), value)
        for of in raw.get("consumesCounters") or ()
        for counter, value in amounts(of.get("counters"), f"{name}.").items()
    )
    taints = tuple(raw.get("taints") or ())
    return Device(driver, pool, name, attributes, capacities, consumes, multiple, taints, seen)


def _qualified(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _domains(qualified: Json) -> dict[str, dict[str, Any]]:
    domains: dict[str, dict[str, Any]] = {}
    for key, value in qualified.items():
        domain, _slash, name = key.partition("/")
        domains.setdefault(domain, {})[name] = value
    return domains


def _value(name: str, raw: Json) -> Any:
    for key, kind in (("string", str), ("int", int), ("bool", bool)):
        if raw.get(key) is not None:
            return kind(raw[key])
    if raw.get("version") is not None:
        return selectors.version(str(raw["version"]), name)
    raise InputError.of(name, dict(raw), "an attribute with string, int, bool or version")


@lru_cache(maxsize=4096)
def _capacities(text: str) -> Mapping[str, Capacity]:
    """Return capacities from JSON; equal ones are one object, so that what is taken of them is known for all."""
    return {key: _capacity(value, f"capacity.{key}") for key, value in json.loads(text).items()}


def _capacity(raw: Json, key: str) -> Capacity:
    policy = raw.get("requestPolicy") or {}
    limits = amounts(policy.get("validRange"), f"{key}.")
    default = amounts({"default": policy["default"]} if "default" in policy else {}, f"{key}.")
    valid = tuple(quantity.of(one, key) for one in policy.get("validValues") or ())
    range_of = (limits.get("min"), limits.get("max"), limits.get("step"))
    return Capacity(quantity.of(raw["value"], key), default.get("default"), *range_of, valid)


def amounts(raw: Any, where: str) -> dict[str, Number]:
    """Return the quantities of a map by name, each by itself or as a value. InputError names ``where`` one is none."""
    return {
        str(name): quantity.of(one["value"] if isinstance(one, Mapping) else one, f"{where}{name}")
        for name, one in (raw or {}).items()
    }
