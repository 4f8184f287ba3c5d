# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU goes from the device plugin to DRA, or back: who still has it by the way that it is to leave."""

from __future__ import annotations

import typing as t

from ..._base.dra.allocation import Owners
from ..._base.dra.names import BOTH, DRA, DRIVER
from .allocated import UNREPORTED, Allocation, Devices, is_gpu, places
from .busy import refuse_if_busy


def by_dra(allocation: Allocation) -> bool:
    """Return whether our DRA driver gave a device out."""
    return allocation.resource == DRIVER or allocation.resource.startswith(f"{DRIVER}/")


def held(
    allocations: t.Iterable[Allocation], node: t.Sequence[Devices], owners: Owners
) -> t.Tuple[str, ...]:
    """Return who has a device that another is to give out, in words, once for each."""
    return tuple(
        dict.fromkeys(
            str(allocation)
            for allocation in allocations
            if is_gpu(allocation) and _leaves(allocation, node, owners)
        )
    )


def _leaves(allocation: Allocation, node: t.Sequence[Devices], owners: Owners) -> bool:
    """Return whether a device is on a GPU that is to be another's, or it is not known who gave it out."""
    if allocation.resource == UNREPORTED:
        return True
    gpus = {place.gpu for place in places(allocation, node)}
    to = {owners.of(each.gpu) for each in node if each.gpu.uuid in gpus}
    if not to and owners.allocation == BOTH:
        return True
    return any((owner == DRA) != by_dra(allocation) for owner in to or {owners.allocation})


def refuse(allocation: str, holders: t.Sequence[str]) -> None:
    """Raise Busy where somebody has what is to go to another."""
    message = f"allocation: {allocation} would give GPUs out by another way while pods have them"
    refuse_if_busy(message, holders, key="allocation")
