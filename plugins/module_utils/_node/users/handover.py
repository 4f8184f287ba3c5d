# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU goes from the device plugin to DRA, or back: who still has it by the way that it is to leave."""

from __future__ import annotations

import typing as t

from ..._base.dra.allocation import Owners
from ..._base.dra.names import BOTH, DRA, DRIVER
from .allocated import UNREPORTED, Allocation, Devices, is_gpu, places
from .busy import refuse_if_busy


def by_dra(one: Allocation) -> bool:
    """Tell whether our DRA driver gave a device out."""
    return one.resource == DRIVER or one.resource.startswith(f"{DRIVER}/")


def held(
    allocations: t.Iterable[Allocation], node: t.Sequence[Devices], wanted: Owners
) -> t.Tuple[str, ...]:
    """Return who has a device that another is to give out, in words, once for each."""
    return tuple(
        dict.fromkeys(
            str(allocation)
            for allocation in allocations
            if is_gpu(allocation) and _leaves(allocation, node, wanted)
        )
    )


def _leaves(one: Allocation, node: t.Sequence[Devices], wanted: Owners) -> bool:
    """Return whether a device is on a GPU that is to be another's, or it is not known who gave it out."""
    if one.resource == UNREPORTED:
        return True
    found = {place.gpu for place in places(one, node)}
    to = {wanted.of(each.gpu) for each in node if each.gpu.uuid in found}
    if not to and wanted.allocation == BOTH:
        return True
    return any((owner == DRA) != by_dra(one) for owner in to or {wanted.allocation})


def refuse(allocation: str, holders: t.Sequence[str]) -> None:
    """Raise Busy where somebody has what is to go to another."""
    what = f"allocation: {allocation} would give GPUs out by another way while pods have them"
    refuse_if_busy(what, holders, key="allocation")
