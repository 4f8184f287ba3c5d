# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which of the free devices suit a container best. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .alignment import best
from .allocation import AllocationRefused, known
from .devices import Device, Devices
from .topology import Topology


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
    offered = set(available) | set(required)
    free = [device for device in everything if device.id in offered]
    if size < 1 or size < len(must) or size > len(free):
        raise AllocationRefused(
            f"{size} devices can't be chosen",
            cause=f"{len(free)} are available and {len(must)} are required",
        )
    taken = {device.id for device in must}
    rest = [device for device in free if device.id not in taken and not device.problem]
    if len(rest) + len(must) < size:  # the kubelet has not heard of their health yet
        rest = [device for device in free if device.id not in taken]
    if any(device.replica is not None or device.instance is not None for device in free):
        picked = _picked(everything, rest, must, size, policy)
    else:
        picked = _aligned(rest, must, size, topology or Topology())
    return [device.id for device in (*must, *picked)]


def _picked(
    everything: tuple[Device, ...], rest: list[Device], must: list[Device], size: int, policy: str
) -> list[Device]:
    """Pick by the policy. MPS shares of several devices can't go to one container: see allocation."""
    count = size - len(must)
    if size < 2 or not any(device.mps is not None for device in (*rest, *must)):
        return _by_policy(everything, rest, count, policy)
    uuids = {device.uuid for device in must} or {device.uuid for device in rest if device.mps}
    full = [uuid for uuid in uuids if sum(one.uuid == uuid for one in rest) < count]
    near = [one for one in rest if one.uuid in uuids and one.uuid not in full]
    if near:
        first = _by_policy(everything, near, 1, policy)[0] if count else near[0]
        near = [one for one in near if one.uuid == first.uuid]
    elif not any(device.mps is not None for device in must):
        near = [one for one in rest if one.mps is None]
    return _by_policy(everything, near if len(near) >= count else rest, count, policy)


def _aligned(rest: list[Device], must: list[Device], size: int, topology: Topology) -> list[Device]:
    pool = sorted([*rest, *must], key=lambda device: device.order)
    scores = [[topology.score(one, other) for other in pool] for one in pool]
    forced = [place for place, device in enumerate(pool) if device in must]
    return [pool[place] for place in best(scores, forced, size) if place not in forced]


def _by_policy(
    everything: Iterable[Device], rest: list[Device], count: int, policy: str
) -> list[Device]:
    """Pick from the GPU that is used least, or most when they are to be packed.

    Of a GPU's MIG devices the same holds for each. What is required counts as in use, and so does
    what is picked.
    """
    waiting: dict[str, list[Device]] = {}
    for device in reversed(rest):  # so that the lowest is the last, which is taken first
        waiting.setdefault(device.uuid, []).append(device)
    free = {device.id for device in rest}
    used: Counter[str] = Counter()
    for device in everything:
        if device.id not in free:
            used[device.gpu_uuid] += 1
            if device.instance is not None:
                used[device.uuid] += 1
    sign = -1 if policy == "packed" else 1

    def rank(uuid: str) -> tuple[int, int, tuple[int, ...]]:
        device = waiting[uuid][-1]
        return (sign * used[device.gpu_uuid], sign * used[uuid], device.order)

    picked: list[Device] = []
    while len(picked) < count:
        uuid = min((one for one in waiting if waiting[one]), key=rank)
        device = waiting[uuid].pop()
        used[device.gpu_uuid] += 1
        if device.instance is not None:
            used[uuid] += 1
        picked.append(device)
    return picked
