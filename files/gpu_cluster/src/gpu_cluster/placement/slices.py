# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pools of a node, from its ResourceSlices (resource.k8s.io/v1, as JSON). Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from gpu_plugin._shared._base.errors import InputError
from gpu_plugin.cluster import quantity
from gpu_plugin.cluster.quantity import Number

from .values import Attribute, Capacity, Device, Devices, Pool, Taint, Version

Json = Mapping[str, Any]
_NUMBER: Final = r"(0|[1-9]\d{0,17})"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?\Z", re.ASCII
)


def by_node(slices: Iterable[Json]) -> dict[str, list[Json]]:
    """Return the slices of each node. Those that are not of one node are under an empty name."""
    nodes: dict[str, list[Json]] = {}
    for one in slices:
        nodes.setdefault(str(one["spec"].get("nodeName") or ""), []).append(one)
    return nodes


def devices(slices: Iterable[Json]) -> Devices:
    """Return the devices of the node whose slices these are, in the order of Kubernetes' allocator.

    That is by driver, pool, slice name, and then as the slice lists them; pools that bind later come last.
    InputError: a slice can't be understood.
    """
    pools: dict[tuple[str, str], list[Json]] = {}
    for one in slices:
        spec = one["spec"]
        pools.setdefault((str(spec["driver"]), str(spec["pool"]["name"])), []).append(one)
    built = [_pool(driver, name, of) for (driver, name), of in sorted(pools.items())]
    return Devices(tuple(sorted(built, key=lambda pool: pool.binds_later)))


def _pool(driver: str, name: str, slices: list[Json]) -> Pool:
    newest = max(int(one["spec"]["pool"].get("generation", 0)) for one in slices)
    current = [one for one in slices if int(one["spec"]["pool"].get("generation", 0)) == newest]
    wanted = int(current[0]["spec"]["pool"]["resourceSliceCount"])
    if len(current) != wanted:
        why = f"{len(current)} of {wanted} slices of generation {newest} are there"
        counted = any(one["spec"].get("sharedCounters") for one in current)
        elsewhere = why if counted else ""
        return Pool(driver, name, problem=why, elsewhere=elsewhere)
    current.sort(key=lambda one: str(one.get("metadata", {}).get("name", "")))
    return _complete(driver, name, [one["spec"] for one in current])


def _complete(driver: str, name: str, specs: list[Json]) -> Pool:
    raw = [
        device
        for spec in specs
        if not spec.get("sharedCounters")
        for device in spec.get("devices") or ()
    ]
    found = tuple(_device(driver, name, one) for one in raw)
    sets = [one for spec in specs for one in spec.get("sharedCounters") or ()]
    counters = {
        (str(one["name"]), str(counter)): _amount(value, "sharedCounters", str(one["name"]))
        for one in sets
        for counter, value in (one.get("counters") or {}).items()
    }
    names = Counter(str(one["name"]) for one in raw)
    twice = next((f"two devices have the name {one}" for one in names if names[one] > 1), "")
    wrong = _wrong_counters(raw, sets)
    later = any(one.get("bindingConditions") is not None for one in raw)
    elsewhere = wrong if sets else ""
    return Pool(driver, name, found, counters, twice or wrong, elsewhere, binds_later=later)


def _wrong_counters(raw: list[Json], sets: list[Json]) -> str:
    known = {str(one["name"]): one.get("counters") or {} for one in sets}
    if len(known) < len(sets):
        return "two counter sets have one name"
    for one in raw:
        for of in one.get("consumesCounters") or ():
            missing = [
                name
                for name in of.get("counters") or ()
                if name not in known.get(str(of["counterSet"]), {})
            ]
            if missing or of["counterSet"] not in known:
                return f"{one['name']} consumes counters of {of['counterSet']} that are not there"
    return ""


def _device(driver: str, pool: str, raw: Json) -> Device:
    name = str(raw["name"])
    return Device(
        driver,
        pool,
        name,
        _attributes(driver, raw.get("attributes") or {}),
        _capacities(json.dumps(raw.get("capacity") or {})),
        tuple(_consumed(raw, name)),
        bool(raw.get("allowMultipleAllocations")),
        tuple(
            Taint(str(one["key"]), str(one["effect"]), str(one.get("value") or ""))
            for one in raw.get("taints") or ()
        ),
    )


def _consumed(raw: Json, name: str) -> Iterator[tuple[str, str, Number]]:
    for of in raw.get("consumesCounters") or ():
        for counter, value in (of.get("counters") or {}).items():
            yield str(of["counterSet"]), str(counter), _amount(value, "consumesCounters", name)


def _attributes(driver: str, raw: Json) -> dict[str, dict[str, Attribute]]:
    domains: dict[str, dict[str, Attribute]] = {}
    for name, value in raw.items():
        domain, slash, last = str(name).partition("/")
        domains.setdefault(domain if slash else driver, {})[last if slash else domain] = _attribute(
            str(name), value
        )
    return domains


def _attribute(name: str, raw: Json) -> Attribute:
    for key, kind in (("string", str), ("int", int), ("bool", bool)):
        if raw.get(key) is not None:
            return kind(raw[key])
    if raw.get("version") is not None:
        return version(str(raw["version"]), name)
    raise InputError.of(name, dict(raw), "an attribute with string, int, bool or version")


def version(text: str, key: str = "version") -> Version:
    """Return a semantic version. InputError: it is none."""
    found = _SEMVER.match(text)
    if found is None:
        raise InputError.of(key, text, "a semantic version such as 9.0.0")
    return Version(int(found[1]), int(found[2]), int(found[3]), not found[4], found[4] or "")


@lru_cache(maxsize=4096)
def _capacities(text: str) -> Mapping[str, Capacity]:
    """Return capacities from JSON; equal ones are one object, so that what is taken of them is known for all."""
    return {key: _capacity(value, f"capacity.{key}") for key, value in json.loads(text).items()}


def _capacity(raw: Json, key: str) -> Capacity:
    policy = raw.get("requestPolicy") or {}
    limits = policy.get("validRange") or {}
    return Capacity(
        quantity.of(raw["value"], key),
        _perhaps(policy.get("default"), key),
        _perhaps(limits.get("min"), key),
        _perhaps(limits.get("max"), key),
        _perhaps(limits.get("step"), key),
        tuple(quantity.of(value, key) for value in policy.get("validValues") or ()),
    )


def _perhaps(value: object, key: str) -> Number | None:
    return None if value is None else quantity.of(value, key)


def _amount(raw: Json, key: str, name: str) -> Number:
    return quantity.of(raw["value"], f"{name}.{key}")
