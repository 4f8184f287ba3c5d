# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The answer to Allocate: what a container gets for the devices chosen for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._base.visible_devices import BY_CDI
from ..config.configuration import Config
from ..model.inventory import KIND, VENDOR, Device, Devices, HostState
from ..model.mps.settings import Mount, Part

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
VOLUMES: Final = "/var/run/nvidia-container-devices"


class AllocationRefused(NodeError):
    """A request that can't be granted. ``reason`` is one of a few."""

    reason = "invalid_request"


class UnknownDevice(AllocationRefused):
    """A request names a device that this resource does not have."""

    reason = "unknown_device"


class UnhealthyDevice(AllocationRefused):
    """A request names a device that must not be used."""

    reason = "unhealthy_device"


@dataclass(frozen=True)
class Grant:
    """What a container gets; device ``nodes`` are pairs of the path in the container and on the host."""

    envs: dict[str, str]
    mounts: tuple[Mount, ...] = ()
    nodes: tuple[tuple[str, str], ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


def grant(
    devices: Iterable[Device],
    ids: Sequence[str],
    config: Config,
    host: HostState,
    token: str = "",
) -> Grant:
    """Return what a container with these devices needs. ``token`` makes the annotation's key unique."""
    chosen, containers = known(devices, ids), config.containers
    for device in chosen:
        if device.problem:
            raise UnhealthyDevice(f"device {device.id!r} is unhealthy", cause=str(device.problem))
    _check_shares(chosen, one_each=config.sharing.one_each)
    mps = _mps(chosen)
    by_index = containers.device_id_strategy == "index"
    names = list(dict.fromkeys(device.index if by_index else device.uuid for device in chosen))
    strategies = containers.device_list_strategies
    channels = [name for name in containers.imex_channels if name in host.imex_channels]
    envs = {f"NVIDIA_{kind.upper()}": "enabled" for kind in containers.extras}
    mounts: tuple[Mount, ...] = ()
    if "envvar" in strategies:
        envs[VISIBLE] = ",".join(names)
        if channels:
            envs["NVIDIA_IMEX_CHANNELS"] = ",".join(channels)
    if "volume-mounts" in strategies:
        envs[VISIBLE] = VOLUMES
        inside = [*names, *(f"imex/{channel}" for channel in channels)]
        mounts = tuple(Mount(f"{VOLUMES}/{name}", "/dev/null") for name in inside)
    cdi: tuple[str, ...] = ()
    if containers.asks_cdi:
        added = [f"imex-channel={channel}" for channel in channels]
        added += [f"{kind}=all" for kind in containers.extras]
        qualified_names = (f"{VENDOR}/{name}" for name in added)  # as far as the node has it
        cdi = (
            *map(qualified, names),
            *(name for name in qualified_names if name in host.cdi_added),
        )
    nodes: tuple[tuple[str, str], ...] = ()
    if containers.pass_device_specs and not set(strategies) <= set(BY_CDI):
        paths = [*host.control_nodes, *(path for device in chosen for path in device.paths)]
        root = config.driver.dev_root.rstrip("/")
        nodes = tuple((path, root + path) for path in dict.fromkeys(paths))
    annotations = {}
    if "cdi-annotations" in strategies:
        key = f"{containers.cdi_annotation_prefix}nvidia-device-plugin_{token}"
        annotations[key] = ",".join(cdi)
    return Grant(
        {**envs, **mps.envs},
        (*mounts, *mps.mounts),
        nodes,
        annotations,
        cdi if "cdi-cri" in strategies else (),
    )


def qualified(name: str) -> str:
    """Return a device's name as container runtimes know it."""
    return f"{KIND}={name}"


def _check_shares(chosen: Sequence[Device], *, one_each: bool) -> None:
    """Refuse more shares than a container may have."""
    if len(chosen) < 2 or not any(device.replica is not None for device in chosen):
        return
    alone = any(device.mps is not None and device.mps.settings.combine == 1 for device in chosen)
    in_turns = any(device.replica is not None and device.mps is None for device in chosen)
    if alone or (one_each and in_turns):
        raise AllocationRefused(
            f"maximum request size for shared resources is 1; found {len(chosen)}",
            cause="failRequestsGreaterThanOne is set"
            if not alone
            else "sharing.mps sets failRequestsGreaterThanOne, or one share is all that combine allows",
        )


def _mps(chosen: Sequence[Device]) -> Part:
    """Return what makes a container a client of MPS, nothing if it shares nothing by MPS."""
    shared = [device for device in chosen if device.mps is not None]
    if not shared:
        return Part({}, ())
    if len({device.uuid for device in chosen}) > 1:
        raise AllocationRefused(
            "MPS shares of several devices can't be given to one container",
            cause="each device has an MPS control daemon of its own, and a container can have one",
            hint="ask for shares that fit on one device, or for whole devices",
        )
    offer = shared[0].mps
    assert offer is not None
    try:
        return offer.part(len(shared))
    except NodeError as error:
        raise AllocationRefused(error.message, cause=error.cause) from error


def known(devices: Iterable[Device], ids: Sequence[str]) -> list[Device]:
    """Return the devices of these ids, each of which must be there and must be named once."""
    by_id = Devices.of(devices).by_id
    seen: set[str] = set()
    for name in ids:
        if name not in by_id:
            raise UnknownDevice(f"unknown device {name!r}", hint="the list of devices has changed")
        if name in seen:
            raise AllocationRefused(f"device {name!r} is requested twice")
        seen.add(name)
    return [by_id[name] for name in ids]
