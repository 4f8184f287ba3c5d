# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices as ResourceSlices describe them, and what is allocated of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpu_plugin.cluster.quantity import Number


@dataclass(frozen=True, order=True)
class Version:
    """A semantic version: of two, that without a pre-release is the newer one."""

    major: int
    minor: int
    patch: int
    release: bool = True
    text: str = ""


Attribute = str | int | bool | Version


@dataclass(frozen=True)
class Capacity:
    """A capacity of a device, and which amounts of it may be requested."""

    value: Number
    default: Number | None = None
    minimum: Number | None = None
    maximum: Number | None = None
    step: Number | None = None
    valid: tuple[Number, ...] = ()


@dataclass(frozen=True)
class Taint:
    """A taint of a device."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, eq=False)
class Device:
    """A device of a pool. Attributes are by domain and identifier, capacities by the name they were published under."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Mapping[str, Attribute]]
    capacities: Mapping[str, Capacity]
    consumes: tuple[tuple[str, str, Number], ...] = ()
    multiple: bool = False
    taints: tuple[Taint, ...] = ()

    def attribute(self, qualified: str) -> Attribute | None:
        """Return an attribute by its fully qualified name."""
        domain, _slash, name = qualified.partition("/")
        return self.attributes.get(domain, {}).get(name)

    @cached_property
    def capacity_by_domain(self) -> dict[str, dict[str, Number]]:
        """Capacities as selectors see them."""
        seen: dict[str, dict[str, Number]] = {}
        for name, capacity in self.capacities.items():
            domain, slash, last = name.partition("/")
            seen.setdefault(domain if slash else self.driver, {})[last if slash else name] = (
                capacity.value
            )
        return seen


@dataclass(frozen=True, eq=False)
class Pool:
    """The devices of one pool that a node can use, in the order in which they are tried.

    ``problem`` says why nothing is allocated from it, ``elsewhere`` what of that is seen when a pod is tried on other
    nodes, for which counters alone are gathered.
    """

    driver: str
    name: str
    devices: tuple[Device, ...] = ()
    counters: Mapping[tuple[str, str], Number] = field(default_factory=dict)
    problem: str = ""
    elsewhere: str = ""
    binds_later: bool = False


@dataclass(frozen=True)
class Use:
    """What is allocated of a node's devices, which are known by their index.

    ``busy`` are in use as a whole, ``shared`` by shares, with ``consumed`` of their capacities (sorted).
    """

    busy: frozenset[int] = frozenset()
    shared: frozenset[int] = frozenset()
    consumed: tuple[tuple[int, tuple[tuple[str, Number], ...]], ...] = ()

    @cached_property
    def capacity(self) -> dict[int, dict[str, Number]]:
        """What shares have of each device."""
        return {device: dict(amounts) for device, amounts in self.consumed}

    @cached_property
    def drawing(self) -> frozenset[int]:
        """The devices whose counters are consumed."""
        return self.busy | self.shared | frozenset(device for device, _amounts in self.consumed)


@dataclass(frozen=True, eq=False)
class Devices:
    """All pools of a node, in the order in which they are tried, and their devices in one row."""

    pools: tuple[Pool, ...]

    @cached_property
    def row(self) -> tuple[Device, ...]:
        """The devices of all pools."""
        return tuple(device for pool in self.pools for device in pool.devices)

    @cached_property
    def pool_of(self) -> tuple[Pool, ...]:
        """The pool of each device."""
        return tuple(pool for pool in self.pools for _device in pool.devices)

    @cached_property
    def usable(self) -> tuple[int, ...]:
        """The indices of devices whose pool can be allocated from."""
        return tuple(index for index, pool in enumerate(self.pool_of) if not pool.problem)

    @cached_property
    def index(self) -> dict[tuple[str, str, str], int]:
        """The index of each device by driver, pool and name."""
        return {(one.driver, one.pool, one.name): index for index, one in enumerate(self.row)}


def broken(nodes: Iterable[Devices]) -> Pool | None:
    """Return a pool, if there is one, for which no node gives all of its devices (ALL_POOLS in dra/versions.py)."""
    pools = (pool for one in dict.fromkeys(nodes) for pool in one.pools)
    return next((one for one in pools if one.elsewhere), None)


@dataclass(frozen=True)
class Given:
    """A device that a request of a claim gets, by its index on the node, and what it takes of a shared one."""

    claim: int
    request: str
    device: int
    consumed: tuple[tuple[str, Number], ...] = ()


def added(use: Use, given: tuple[Given, ...], devices: Devices) -> Use:
    """Return what is in use once these devices are allocated too."""
    busy, shared = set(use.busy), set(use.shared)
    capacity = {device: dict(amounts) for device, amounts in use.capacity.items()}
    for one in given:
        if not devices.row[one.device].multiple:
            busy.add(one.device)
            continue
        shared.add(one.device)
        for name, amount in one.consumed:
            amounts = capacity.setdefault(one.device, {})
            amounts[name] = amounts.get(name, 0) + amount
    consumed = tuple(sorted((device, tuple(sorted(of.items()))) for device, of in capacity.items()))
    return Use(frozenset(busy), frozenset(shared), consumed)
