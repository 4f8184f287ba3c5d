# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs the device plugin gives to containers, and which the DRA driver. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from .._shared._base.dra.checkpoint import PreparedClaim
from .._shared._base.dra.names import DEVICE_PLUGIN, DRA, DRIVER
from .._shared._base.gpu import Gpu
from .._shared._node.users.allocated import Allocation, Devices, places
from ..config.allocation import DEVICES, Dra, owner, unknown
from ..model.inventory import Inventory


def owned(inventory: Inventory, dra: Dra, who: str) -> Inventory:
    """Return the inventory with the GPUs of ``device_plugin`` or ``dra`` alone."""
    return replace(
        inventory, gpus=tuple(one for one in inventory.gpus if owner(one.gpu, dra) == who)
    )


def misnamed(inventory: Inventory, dra: Dra) -> list[str]:
    """Say which GPUs the configuration gives to DRA that are not there."""
    if inventory.absent or inventory.strangers:
        return []  # they may be among those that nobody has read yet
    gpus = [view.gpu for view in inventory.gpus]
    return [f"{DEVICES} names {one}, which this node does not have" for one in unknown(gpus, dra)]


def taken(
    inventory: Inventory, dra: Dra, pods: Iterable[Allocation], claims: Iterable[PreparedClaim]
) -> Iterator[tuple[Gpu, str]]:
    """Yield the GPUs that another than their owner has given away, and to whom: a pod, or a claim."""
    owners = {view.gpu.uuid: (view.gpu, owner(view.gpu, dra)) for view in inventory.gpus}
    node = [Devices(one.gpu, one.layout.instances, one.mig) for one in inventory.gpus]
    for pod in pods:
        for uuid in sorted({place.gpu for place in places(pod, node)} if not _by_dra(pod) else ()):
            if owners[uuid][1] == DRA:
                yield owners[uuid][0], str(pod)
    for claim in claims:
        for one in claim.devices:
            if one.gpu in owners and owners[one.gpu][1] == DEVICE_PLUGIN:
                yield owners[one.gpu][0], f"{claim} with {one.device}"


def _by_dra(one: Allocation) -> bool:
    return one.resource == DRIVER or one.resource.startswith(f"{DRIVER}/")


def moved(inventory: Inventory, before: Dra, after: Dra) -> bool:
    """Tell whether a GPU goes from one owner to the other."""
    return any(owner(one.gpu, before) != owner(one.gpu, after) for one in inventory.gpus)
