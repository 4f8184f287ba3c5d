# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs the device plugin gives to containers, and which the DRA driver. Pure."""

from __future__ import annotations

from dataclasses import replace

from ..config.allocation import DEVICES, Dra, owner, unknown
from .devices import Inventory


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
