# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which of the free devices suit a container best. Pure."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from ..model.inventory import Device, Devices
from ..model.topology import Topology
from .allocation import AllocationRefused, known


def prefer(
    devices: Iterable[Device],
    available: Sequence[str],
    required: Sequence[str],
    size: int,
    policy: str = "distributed",
    topology: Topology | None = None,
) -> list[str]:
    """Choose ``size`` devices, with the required ones.

    Whole GPUs are chosen for how they are connected, replicas and MIG devices by the policy.
    """
    everything = Devices.of(devices)
    must = known(everything, required)
    needed = set(required)
    advertised = needed.union(available)
    free = [device for device in everything if device.id in advertised]
    if size < 1 or size < len(must) or size > len(free):
        raise AllocationRefused(
            f"{size} devices can't be chosen",
            cause=f"{len(free)} are available and {len(must)} are required",
        )
    optional = [device for device in free if device.id not in needed]
    healthy = [device for device in optional if not device.problem]
    if len(healthy) + len(must) < size:  # the kubelet has not heard of their health yet
        healthy = optional
    if any(device.replica is not None or device.instance is not None for device in free):
        picked = _picked(everything, healthy, must, size, policy)
    else:
        links = topology or Topology()
        pool = sorted([*healthy, *must], key=lambda device: device.order)
        scores = [[links.score(device, other) for other in pool] for device in pool]
        forced = [place for place, device in enumerate(pool) if device in must]
        picked = [pool[place] for place in best(scores, forced, size) if place not in forced]
    return [device.id for device in (*must, *picked)]


def _picked(
    everything: tuple[Device, ...], free: list[Device], must: list[Device], size: int, policy: str
) -> list[Device]:
    """Pick by the policy. MPS shares of several devices can't go to one container: see allocation."""
    count = size - len(must)
    if size < 2 or not any(device.mps is not None for device in (*free, *must)):
        return _by_policy(everything, free, count, policy)
    uuids = {device.uuid for device in must} or {device.uuid for device in free if device.mps}
    full = [uuid for uuid in uuids if sum(device.uuid == uuid for device in free) < count]
    near = [device for device in free if device.uuid in uuids and device.uuid not in full]
    if near:
        first = _by_policy(everything, near, 1, policy)[0] if count else near[0]
        near = [device for device in near if device.uuid == first.uuid]
    elif not any(device.mps is not None for device in must):
        near = [device for device in free if device.mps is None]
    return _by_policy(everything, near if len(near) >= count else free, count, policy)


def _by_policy(
    everything: Iterable[Device], optional: list[Device], count: int, policy: str
) -> list[Device]:
    """Pick from the GPU that is used least, or most if they are to be packed, and so of its MIG devices.

    Required devices count as in use, and so do picked ones.
    """
    waiting: dict[str, list[Device]] = {}
    for device in reversed(optional):  # so that the lowest is the last, which is taken first
        waiting.setdefault(device.uuid, []).append(device)
    free = {device.id for device in optional}
    used: Counter[str] = Counter()
    for device in everything:
        if device.id not in free:
            used.update({device.gpu_uuid, device.uuid})
    sign = -1 if policy == "packed" else 1

    def rank(uuid: str) -> tuple[int, int, tuple[int, ...]]:
        device = waiting[uuid][-1]
        return (sign * used[device.gpu_uuid], sign * used[uuid], device.order)

    picked: list[Device] = []
    while len(picked) < count:
        uuid = min((uuid for uuid, devices in waiting.items() if devices), key=rank)
        device = waiting[uuid].pop()
        used.update({device.gpu_uuid, device.uuid})
        picked.append(device)
    return picked


Scores = Sequence[Sequence[int]]
# The worth of a choice, that of the devices left, and the choice itself: device 0 is the highest bit.
Worth = tuple[int, int, int]


def best(scores: Scores, forced: Collection[int], size: int) -> list[int]:
    """Return the best ``size`` of the devices, with the forced ones. There must be so many."""
    everything = range(len(scores))
    levels = _levels(scores, list(everything), forced, size)
    if levels is not None:
        chosen = levels[size]
        return [index for index in everything if chosen[2] >> (len(scores) - 1 - index) & 1]
    free = [index for index in everything if index not in forced]
    missing = size - len(forced)
    if math.comb(len(free), missing) <= 500:
        choices = [[*forced, *combination] for combination in itertools.combinations(free, missing)]
    else:
        seeds = [[*forced]] if forced else [[index] for index in free]
        choices = [_grown(scores, seed, size) for seed in seeds]
    result = max(choices, key=lambda choice: _worth(scores, choice))
    return sorted(result)


def _worth(scores: Scores, chosen: Collection[int]) -> Worth:
    left = [index for index in range(len(scores)) if index not in chosen]
    inside, outside = (
        sum(scores[index][other] for index, other in itertools.combinations(members, 2))
        for members in (chosen, left)
    )
    return (inside, outside, sum(1 << (len(scores) - 1 - index) for index in chosen))


def _levels(
    scores: Scores, members: list[int], forced: Collection[int], size: int
) -> dict[int, Worth] | None:
    """Return the best choice of each count among the members, None if they form no tree.

    In a tree all pairs across two branches are worth the same, so that branches only need to know
    how many of each other are chosen. PCIe is a tree, and so is a switch that connects all.
    """
    if len(members) == 1:
        taken = (0, 0, 1 << (len(scores) - 1 - members[0]))
        return {1: taken} if members[0] in forced else {0: (0, 0, 0), 1: taken}
    least = min(scores[index][other] for index, other in itertools.combinations(members, 2))
    branches = _branches(scores, members, least)
    if len(branches) == 1:
        return None
    best_by_size: dict[int, Worth] = {0: (0, 0, 0)}
    total = 0
    for branch in branches:
        inner = _levels(scores, branch, forced, size)
        if inner is None:
            return None
        joined: dict[int, Worth] = {}
        for (a, left), (b, right) in itertools.product(best_by_size.items(), inner.items()):
            if a + b <= size:
                value = (
                    left[0] + right[0] + least * a * b,
                    left[1] + right[1] + least * (total - a) * (len(branch) - b),
                    left[2] | right[2],
                )
                joined[a + b] = max(joined.get(a + b, value), value)
        best_by_size, total = joined, total + len(branch)
    return best_by_size


def _branches(scores: Scores, members: list[int], least: int) -> list[list[int]]:
    """Split the members into groups that only pairs of the least worth connect."""
    branches = []
    waiting = list(members)
    while waiting:
        branch = [waiting.pop(0)]
        for index in branch:
            near = [other for other in waiting if scores[index][other] > least]
            branch += near
            waiting = [other for other in waiting if other not in near]
        branches.append(branch)
    return branches


def _grown(scores: Scores, seed: list[int], size: int) -> list[int]:
    """Add one device after the other. Not always the best, but quicker than to try all."""
    chosen = list(seed)
    while len(chosen) < size:
        left = [index for index in range(len(scores)) if index not in chosen]
        gains = [
            (
                sum(scores[index][other] for other in chosen),
                -sum(scores[index][other] for other in left if other != index),
                -index,
            )
            for index in left
        ]
        chosen.append(-max(gains)[2])
    return chosen
