# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The ResourceSlices of a node: one pool with counters, and the devices that consume them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeVar

from .._shared._base.dra.names import (
    CORES,
    DRIVER,
    MEMORY,
    MPS,
    NVIDIA,
    SHARE,
    SHARES,
    counter_set,
    pool_name,
)
from .._shared._base.gpu import Gpu
from ..config.allocation import Dra
from ..config.configuration import Config
from ..model.inventory import Faults, Inventory, judged
from ..model.mps.settings import client_limit
from ..model.quantity import MIB, count, size
from .attributes import attributes
from .taints import taints
from .targets import Made, Target, grid, targets

MOST_SETS, MOST_DEVICES = 8, 64  # in one ResourceSlice, where devices have counters or taints
LEAST_MIB: Final = 2  # a step above the least share
T = TypeVar("T")
Spec = dict[str, Any]


def build(
    inventory: Inventory,
    config: Config,
    faults: Faults,
    unenforced: Mapping[str, str],
    *,
    node: str,
    pool: str = "",
    made: Made = (),
) -> tuple[Spec, ...]:
    """Return the specs of a node's ResourceSlices (resource.k8s.io/v1), none if DRA has no GPU.

    Equal values give equal specs. The publisher sets the pool's generation.

    Args:
        inventory: The node's GPUs.
        config: The configuration.
        faults: The faults of GPUs.
        unenforced: Why shares of a GPU can't be enforced at the moment, by UUID.
        node: The node's name.
        pool: The pool's name, empty for the usual one.
        made: The MIG instances that live claims had made.
    """
    inventory = judged(inventory, faults)
    published = targets(inventory, config.dra, made)
    counters = _counters(published, made)
    devices = [_device(target, inventory, config.dra, unenforced, counters) for target in published]
    sets = [{"sharedCounters": chunk} for chunk in _chunks(list(counters.values()), MOST_SETS)]
    slices = [*sets, *({"devices": chunk} for chunk in _chunks(devices, MOST_DEVICES))]
    about = {"name": pool or pool_name(node), "generation": 1, "resourceSliceCount": len(slices)}
    common = {"driver": DRIVER, "nodeName": node}
    return tuple({**common, "pool": dict(about), **target} for target in slices)


def _chunks(items: Sequence[T], most: int) -> Iterator[list[T]]:
    return (list(items[at : at + most]) for at in range(0, len(items), most))


def _counters(published: Sequence[Target], made: Made) -> dict[str, Spec]:
    """Return by name the counters of GPUs whose devices together take more than there is.

    Others exclude nothing, and the scheduler (1.36) reads the counters of all nodes for each node.
    """
    taken: dict[int, Counter[str]] = {}
    for target in published:
        taken.setdefault(target.view.gpu.minor, Counter()).update(_uses(target))
    sets: dict[str, Spec] = {}
    for minor, view in {target.view.gpu.minor: target.view for target in published}.items():
        # Of memory alone, if the GPU is not in MIG mode: a whole GPU takes all of it, and so do its shares.
        total = {MEMORY: view.gpu.memory_total}
        there = grid(view, made).counters if view.gpu.mig_current else total
        name = counter_set(minor)
        if any(count > there[counter] for counter, count in taken[minor].items()):
            sets[name] = {"name": name, "counters": _values(there)}
    return sets


def _uses(target: Target) -> dict[str, int]:
    """Return what a device takes of its GPU's counters; a MIG device that exists takes nothing of what is left."""
    return dict(target.uses) if target.profile else {MEMORY: target.view.gpu.memory_total}


def _device(
    target: Target,
    inventory: Inventory,
    dra: Dra,
    unenforced: Mapping[str, str],
    counters: Mapping[str, Spec],
) -> Spec:
    gpu = target.view.gpu
    uses, name = _uses(target), counter_set(gpu.minor)
    memory = target.profile.memory_mb * MIB if target.profile else gpu.memory_total
    capacity = {f"{NVIDIA}/{MEMORY}": {"value": size(memory)}}
    device: Spec = {
        "name": target.name,
        "attributes": attributes(target, inventory, dra.enforcement),
        "capacity": _share(gpu, dra) if target.type == SHARE else capacity,
    }
    if target.type == SHARE:
        device["allowMultipleAllocations"] = True
    if uses and name in counters:
        device["consumesCounters"] = [{"counterSet": name, "counters": _values(uses)}]
    if tainted := taints(target, unenforced):
        device["taints"] = tainted
    return device


def _values(counters: Mapping[str, int]) -> Spec:
    written = {MEMORY: size}
    return {name: {"value": written.get(name, count)(counters[name])} for name in sorted(counters)}


def share_memory(gpu: Gpu, dra: Dra) -> int:
    """Return the memory of all shares of a GPU together: bytes, in whole MiB."""
    scaled = int(gpu.memory_total // MIB * Fraction(str(dra.memory_scaling)))
    return max(scaled, LEAST_MIB) * MIB


def _share(gpu: Gpu, dra: Dra) -> Spec:
    """Return the capacities of a GPU's shares, and how much of them a request takes.

    A request that does not name its memory takes all of it, and one that does not name cores is not limited. MPS has no
    more clients than a GPU's architecture takes.
    """
    memory = size(share_memory(gpu, dra))
    limit, most = client_limit(gpu.compute_capability), dra.split_count
    clients = count(min(most, limit) if dra.enforcement == MPS else most)
    step = {"min": "1Mi", "step": "1Mi"}
    percent = {"min": "0", "max": "100", "step": "1"}
    return {
        CORES: {"value": "100", "requestPolicy": {"default": "0", "validRange": percent}},
        MEMORY: {"value": memory, "requestPolicy": {"default": memory, "validRange": step}},
        SHARES: {"value": clients, "requestPolicy": {"default": "1", "validValues": ["1"]}},
    }
