# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a container gets for the devices chosen for it, and which devices suit it best. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ._shared._core.errors import NodeError
from .config import Config
from .devices import Device

CONTROL_NODES: Final = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
)
VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
VOLUMES: Final = "/var/run/nvidia-container-devices"


class AllocationRefused(NodeError):
    """A request that can't be granted. ``unknown``: it names what is not there."""

    unknown = False


class UnknownDevice(AllocationRefused):
    """A request names a device that this resource does not have."""

    unknown = True


@dataclass(frozen=True)
class Grant:
    """What a container gets: (container path, host path) pairs, and environment."""

    envs: dict[str, str]
    mounts: tuple[tuple[str, str], ...] = ()
    nodes: tuple[tuple[str, str], ...] = ()


def grant(
    devices: Iterable[Device], ids: Sequence[str], config: Config, control_nodes: Iterable[str]
) -> Grant:
    """Return what a container with these devices needs; ``control_nodes`` are those that exist."""
    chosen = [_usable(device) for device in _known(devices, ids)]
    if (
        config.sharing.one_each
        and len(chosen) > 1
        and any(one.replica is not None for one in chosen)
    ):
        raise AllocationRefused(
            f"maximum request size for shared resources is 1; found {len(chosen)}",
            cause="failRequestsGreaterThanOne is set",
        )
    by_index = config.device_id_strategy == "index"
    names = list(dict.fromkeys(device.index if by_index else device.uuid for device in chosen))
    envs: dict[str, str] = {}
    mounts: tuple[tuple[str, str], ...] = ()
    if "envvar" in config.device_list_strategies:
        envs[VISIBLE] = ",".join(names)
    if "volume-mounts" in config.device_list_strategies:
        envs[VISIBLE] = VOLUMES
        mounts = tuple((f"{VOLUMES}/{name}", "/dev/null") for name in names)
    nodes: tuple[tuple[str, str], ...] = ()
    if config.pass_device_specs:
        paths = [*control_nodes, *(path for device in chosen for path in device.paths)]
        root = config.dev_root.rstrip("/")
        nodes = tuple((path, root + path) for path in dict.fromkeys(paths))
    return Grant(envs, mounts, nodes)


def prefer(
    devices: Iterable[Device], available: Sequence[str], required: Sequence[str], size: int
) -> list[str]:
    """Choose ``size`` devices, with the required ones: near to each other, then the lowest index.

    A NUMA node that has room for all is best, and of those the one that the choice fills most.
    """
    all_devices = tuple(devices)
    must = _known(all_devices, required)
    offered = set(available) | set(required)
    free = [device for device in all_devices if device.id in offered]
    if size < 1 or size < len(must) or size > len(free):
        raise AllocationRefused(
            f"{size} devices can't be chosen",
            cause=f"{len(free)} are available and {len(must)} are required",
        )
    rest = [device for device in free if device not in must and not device.problem]
    if len(rest) + len(must) < size:  # the kubelet has not heard of their health yet
        rest = [device for device in free if device not in must]
    picked = _nearest(rest, must, size - len(must))
    return [device.id for device in (*must, *picked)]


def _nearest(rest: list[Device], must: list[Device], count: int) -> list[Device]:
    picked: list[Device] = []
    while len(picked) < count:
        need = count - len(picked)
        groups: dict[int, list[Device]] = {}
        for device in rest:
            if device not in picked:
                groups.setdefault(_node(device), []).append(device)
        taken = {_node(device) for device in (*must, *picked)}

        ranks = {node: _rank(members, node in taken, need) for node, members in groups.items()}
        best = min(ranks, key=ranks.__getitem__)
        picked += sorted(groups[best], key=lambda device: device.order)[:need]
    return picked


def _node(device: Device) -> int:
    return -1 if device.numa_node is None else device.numa_node


def _known(devices: Iterable[Device], ids: Sequence[str]) -> list[Device]:
    by_id = {device.id: device for device in devices}
    seen: set[str] = set()
    for name in ids:
        if name not in by_id:
            raise UnknownDevice(f"unknown device {name!r}", hint="the list of devices has changed")
        if name in seen:
            raise AllocationRefused(f"device {name!r} is requested twice")
        seen.add(name)
    return [by_id[name] for name in ids]


def _usable(device: Device) -> Device:
    if device.problem:
        raise AllocationRefused(f"device {device.id!r} is unhealthy", cause=device.problem)
    return device


def _rank(members: list[Device], taken: bool, need: int) -> tuple[bool, bool, int, tuple[int, ...]]:
    """Return a NUMA node's rank, the lowest being the best: one in use, then the tightest fit."""
    room = len(members)
    fits = room >= need
    return (not taken, not fits, room if fits else -room, min(device.order for device in members))
