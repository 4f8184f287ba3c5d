# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The devices of a claim's results on this node, whether they fit there, and the steps to prepare them. Pure.

Devices fit where the GPU has room for them, and where each container can have them together with its others, by
whichever claims and resources it has those. A container is the client of one MPS control daemon, which sees one GPU.
HAMi-core has limits by the numbers that CUDA gives to GPUs, and a GPU without a limit of its own is used without any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..._shared._base.dra.checkpoint import PREPARED, UNPREPARING, Device, Instance, PreparedClaim
from ..._shared._base.dra.names import (
    CORES,
    DRA,
    DRIVER,
    GPU,
    HAMI_CORE,
    MEMORY,
    MPS,
    NONE,
    SHARE,
    SHARES,
)
from ..._shared._base.errors import NodeError
from ..._shared._base.gpu import Gpu
from ..._shared._node.quarantine import GATE, Quarantine
from ...config.allocation import PUBLISH, Dra, owner
from ...config.strict_yaml import ConfigError
from ...model.inventory import GpuView, Inventory
from ...slices.pool import share_memory
from ..values import ALL, Claim, Container, Result, Share

NAME: Final = re.compile(
    r"gpu-(?P<minor>[0-9]+)"
    r"(?:-mig-.*-(?P<id>[0-9]+)-(?P<start>[0-9]+)|(?P<share>-share))?"
)
AGAIN: Final = "the kubelet tries again"
LIMITED: Final = (MPS, HAMI_CORE)  # enforcements that work by what a container has


@dataclass(frozen=True)
class Limits:
    """What the shares of a GPU may come to together: bytes of memory, and how many they are."""

    memory: int
    shares: int
    cores: int = 100


EVERYTHING: Final = Limits(1 << 62, 1 << 30)  # of a GPU that the driver no longer has


def limits(gpus: Iterable[Gpu], dra: Dra) -> dict[str, Limits]:
    """Return what the shares of each GPU that the driver has may come to, as it is published; by UUID."""
    ours = (gpu for gpu in gpus if owner(gpu, dra) == DRA)
    return {gpu.uuid: Limits(share_memory(gpu, dra), dra.split_count) for gpu in ours}


def resolve(claim: Claim, inventory: Inventory, limits: Mapping[str, Limits]) -> tuple[Device, ...]:
    """Return where the devices of a claim are.

    Raises:
        NodeError: if one is not there, or must not be used now.
    """
    if inventory.absent:
        raise NodeError(f"the driver does not answer: {inventory.absent}", hint=AGAIN)
    views = {view.gpu.minor: view for view in inventory.gpus}
    return tuple(_resolved(result, views, limits) for result in claim.results)


def _resolved(result: Result, views: Mapping[int, GpuView], limits: Mapping[str, Limits]) -> Device:
    match = NAME.fullmatch(result.device)
    view = views.get(int(match["minor"])) if match else None
    if match is None or view is None:
        raise NodeError(
            f"{result.device} is not on this node", cause="no GPU has that number", hint=AGAIN
        )
    gpu, is_mig = view.gpu, match["id"] is not None
    if gpu.uuid not in limits:
        cause = "gpuNode.allocation of this node leaves its GPU to the device plugin"
        raise NodeError(f"{result.device} is not given by {DRIVER}", cause=cause)
    if view.problem:
        raise NodeError(f"{result.device} can't be used", cause=str(view.problem), hint=AGAIN)
    if is_mig != gpu.mig_current:
        cause = f"MIG mode of GPU {gpu.index} is {'on' if gpu.mig_current else 'off'}"
        raise NodeError(f"{result.device} is not there", cause=f"{cause} by now")
    if result.parameters and not match["share"]:
        raise NodeError(
            f"{result.device} has parameters of a share, and is none",
            cause=", ".join(sorted(result.parameters)),
            hint="leave the parameters out of this request",
        )
    # An administrator sees the GPU, and takes nothing of it.
    limited = match["share"] and not result.admin
    if limited and (result.consumed.get(MEMORY, 0) < 1 or result.consumed.get(SHARES, 1) < 1):
        raise NodeError(
            f"{result.device} is allocated without memory", cause="consumedCapacity has none"
        )
    instance = Instance(int(match["id"]), int(match["start"]), made=True) if is_mig else None
    return Device(
        result.request,
        result.pool,
        result.device,
        gpu.uuid,
        gpu.minor,
        result.share_id,
        result.consumed,
        result.parameters,
        instance,
        result.admin,
    )


def check_gate(held: PreparedClaim, quarantine: Quarantine) -> None:
    """Refuse to prepare a claim again, such as after a boot, while the node's gate holds one of its GPUs.

    Raises:
        NodeError: if it does.
    """
    for device in held.devices:
        entry = quarantine.of(device.gpu)
        if entry is not None and entry.author == GATE:
            raise NodeError(f"{device.device} can't be used", cause=entry.reason, hint=AGAIN)


def check_room(
    held: PreparedClaim, prepared: Iterable[PreparedClaim], limits: Mapping[str, Limits]
) -> None:
    """Refuse a claim for which there is no room beside the others, which the kubelet has not given back.

    The scheduler does the same, but takes a claim of a pod that was deleted by force for gone.
    """
    allocated = [
        (claim, device)
        for claim in prepared
        for device in claim.devices
        if claim.uid != held.uid and not device.admin
    ]
    for device in held.devices:
        for claim, beside in allocated:
            if beside.gpu == device.gpu and not device.admin and _excludes(device, beside):
                raise NodeError(
                    f"{device.device} is not free",
                    cause=f"{claim} has {beside.device} until the kubelet gives it back",
                    hint=AGAIN,
                )
    for gpu in dict.fromkeys(device.gpu for device in held.devices if is_share(device)):
        devices = (*(device for _claim, device in allocated), *held.devices)
        shares = [device for device in devices if device.gpu == gpu and is_share(device)]
        _check_sum(gpu, shares, limits.get(gpu, EVERYTHING))


def check_published(dra: Dra, claims: Iterable[PreparedClaim]) -> None:
    """Refuse a configuration that publishes a GPU without the device by which a claim has it.

    The scheduler would take the GPU for free.

    Raises:
        ConfigError: if there is such a claim.
    """
    unpublished = {GPU: True, SHARE: False}.get(dra.publish)
    users = (
        f"{held} with {device.device}"
        for held in claims
        for device in held.devices
        if device.instance is None and not device.admin and is_share(device) is unpublished
    )
    if user := next(users, ""):
        raise ConfigError(
            f"{PUBLISH} can't be {dra.publish} now",
            cause=f"in use by {user}",
            hint="drain the node of these pods, or leave it; it is tried again by itself",
        )


def is_share(device: Device) -> bool:
    """Return whether a device is a share of a GPU that takes something of it: with adminAccess none does."""
    return device.device.endswith("-share") and not device.admin


def _excludes(device: Device, device_beside: Device) -> bool:
    """Return whether two devices of one GPU can't be allocated at the same time."""
    if device.instance and device_beside.instance:
        # Which instances overlap the driver knows.
        a, b = device.instance, device_beside.instance
        return (a.profile_id, a.start) == (b.profile_id, b.start)
    return not (is_share(device) and is_share(device_beside))


def _check_sum(gpu: str, shares: list[Device], most: Limits) -> None:
    sums = {
        MEMORY: (sum(share.consumed.get(MEMORY, 0) for share in shares), most.memory),
        CORES: (sum(share.consumed.get(CORES, 0) for share in shares), most.cores),
        SHARES: (sum(share.consumed.get(SHARES, 1) for share in shares), most.shares),
    }
    for name, (total, limit) in sums.items():
        if total > limit:
            raise NodeError(
                f"there is not enough {name} left on GPU {gpu}",
                cause=f"its shares would come to {total} of {limit} with claims that the kubelet has not given back",
                hint=AGAIN,
            )


def shares(held: PreparedClaim) -> tuple[Share, ...]:
    """Return the shares of a claim for its enforcement, none if nobody enforces them."""
    result = []
    for device in held.devices:
        if held.enforcement == NONE or not is_share(device):
            continue
        cores = device.consumed.get(CORES, 0) if device.parameters.get("coreLimit", True) else 0
        priority = device.parameters.get("priority", 0)
        priority = priority if isinstance(priority, int) else 0
        where = (held.uid, device.gpu, device.minor)
        amounts = (device.consumed[MEMORY], cores)
        result.append(Share(*where, *amounts, device.share_id, priority, held.pods))
    return tuple(result)


def is_affected(
    held: PreparedClaim, claims: Iterable[PreparedClaim], *, plugin_uses_mps: bool
) -> bool:
    """Return whether it matters what the containers of a claim have in addition to it."""
    return plugin_uses_mps or any(
        claim.enforcement in LIMITED and claim.namespace == held.namespace
        for claim in (held, *claims)
    )


def check_containers(
    held: PreparedClaim,
    prepared: Sequence[PreparedClaim],
    containers: Sequence[Container] | None,
    *,
    plugin_uses_mps: bool,
) -> None:
    """Refuse a claim that leaves a container without access to a GPU, or with a GPU without a limit.

    Args:
        held: The claim that is about to be prepared.
        prepared: The claims that are prepared on this node.
        containers: Those of the claim's pods, or None if the pods can't be read: a pod then counts as one container.
        plugin_uses_mps: Whether the device plugin shares GPUs of this node by MPS.

    Raises:
        NodeError: if the devices of a container don't fit together.
    """
    claims = {claim.name: claim for claim in prepared if claim.namespace == held.namespace}
    claims[held.name] = held
    if containers is None:
        names = [name for name, claim in claims.items() if {*claim.pods} & {*held.pods}]
        containers = [Container("", tuple((name, ALL) for name in {*names, held.name}))]
    for container in containers:
        if any(name == held.name for name, _request in container.claims):
            _check_container(container, claims, plugin_uses_mps and bool(container.resources))


def _check_container(
    container: Container, claims: Mapping[str, PreparedClaim], is_client: bool
) -> None:
    devices = [
        (claims[name], device)
        for name, request in container.claims
        if name in claims
        for device in claims[name].devices
        if request in (ALL, device.request, device.request.partition("/")[0])
    ]
    shares = [(claim, device) for claim, device in devices if is_share(device)]
    limited = {claim.enforcement for claim, _device in shares} & {*LIMITED}
    if not (limited or is_client) or len(devices) + len(container.resources) == 1:
        return
    together = [f"{device.device} of {claim}" for claim, device in devices]
    together += [f"{name} of the device plugin" for name in container.resources]
    if MPS in limited or is_client:
        cause = "a container with a share is the client of one MPS control daemon, and sees its GPU alone"
    elif len({claim.uid for claim, _device in devices}) > 1 or len(shares) < len(together):
        cause = (
            "HAMi-core limits the GPUs of one claim, all of which have to be shares that are alike"
        )
    else:
        return
    named = f"container {container.name}" if container.name else "one pod"
    raise NodeError(
        f"{', '.join(together)} can't be given to {named} together",
        cause=cause,
        hint="give each of them to a container of its own, or set gpuNode.dra.enforcement to another one",
    )


# What is done for a claim, one after the other. Each may be done again.
UNDO: Final = "undo"  # go on with the unpreparing that was interrupted
NOTE: Final = "note"  # write down what is about to be done
INSTANCES: Final = "instances"  # make MIG instances
GIVE: Final = "give"  # set up what enforces shares, and describe it all to container runtimes
DONE: Final = "done"


def steps(held: PreparedClaim | None, *, intact: bool, moved: bool = False) -> tuple[str, ...]:
    """Return the steps that are left to prepare a claim.

    ``held`` is what is written down of it, ``intact`` whether all is still there that it was given, ``moved`` whether
    it is allocated something else by now.
    """
    if held is None:
        return (NOTE, INSTANCES, GIVE, DONE)
    if held.state == UNPREPARING or moved:
        return (UNDO, NOTE, INSTANCES, GIVE, DONE)
    if held.state == PREPARED and intact:
        return ()
    return (INSTANCES, GIVE, DONE)
