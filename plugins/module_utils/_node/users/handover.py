# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs that change between device plugin and DRA, and the pods that still have them."""

from __future__ import annotations

import typing as t

from ..._base.dra.allocation import Owners
from ..._base.dra.names import BOTH, DRA, DRIVER
from .allocated import UNREPORTED, Allocation, Devices, is_gpu, places
from .busy import refuse_if_busy


def held(
    allocations: t.Iterable[Allocation], node: t.Sequence[Devices], owners: Owners
) -> t.Tuple[str, ...]:
    """Return the pods and claims that have a device that gets another allocator, each once."""
    leaving = (
        allocation
        for allocation in allocations
        if is_gpu(allocation) and _leaves(allocation, node, owners)
    )
    return tuple(dict.fromkeys(map(str, leaving)))


def _leaves(allocation: Allocation, node: t.Sequence[Devices], owners: Owners) -> bool:
    """Return whether a device is on a GPU that gets another allocator, or its allocator is not known."""
    if allocation.resource == UNREPORTED:
        return True
    gpus = {place.gpu for place in places(allocation, node)}
    to = {owners.of(devices.gpu) for devices in node if devices.gpu.uuid in gpus}
    if not to and owners.allocation == BOTH:
        return True
    is_by_dra = allocation.resource.partition("/")[0] == DRIVER
    return any((owner == DRA) != is_by_dra for owner in to or {owners.allocation})


def refuse(allocation: str, holders: t.Sequence[str]) -> None:
    """Refuse to change the allocator of devices that pods or claims have.

    Raises:
        Busy: if there are any.
    """
    message = f"allocation: {allocation} would give GPUs out by another way while pods have them"
    refuse_if_busy(message, holders, key="allocation")
