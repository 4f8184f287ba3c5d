# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node offers, from what was seen of it and what its configuration asks for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ..config.configuration import Config
from ..mps.settings import Offer
from .devices import EnumerationRefused, Inventory, Resources, enumerate_devices, left_out
from .problem import Kind, Problem
from .replicas import held_back, not_shared, offers, refused, share


@dataclass(frozen=True)
class Offered:
    """The devices of each resource, and what there is to say of them.

    ``mps`` is what is offered in shares of MPS, by device. Where there is a ``refusal`` nothing is
    offered.
    """

    resources: Resources = field(default_factory=dict)
    mps: Mapping[str, Offer] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: EnumerationRefused | None = None

    @property
    def unsharable(self) -> str:
        """Why a device can't be shared as MPS is asked to, empty where all can."""
        return refused(self.resources)

    def refused(self, why: str) -> Offered:
        """Return the same where MPS can't be as it is asked for."""
        refusal = EnumerationRefused(f"sharing.mps can't be as it is: {why}")
        return replace(self, resources={}, mps={}, refusal=refusal)

    def held_back(self, problems: Mapping[str, str], own_shm: Callable[[str], bool]) -> Resources:
        """Return the resources with the problems that MPS has with devices at the moment."""
        return held_back(self.resources, problems, own_shm)


def decide(inventory: Inventory, config: Config) -> Offered:
    """Return what is offered; a device that must not be used is there with its problem."""
    strategy, naming, sharing = config.mig_strategy, config.naming, config.sharing
    notes = left_out(inventory, strategy, naming)
    try:
        found = enumerate_devices(inventory, strategy, naming)
    except EnumerationRefused as refusal:
        return Offered(notes=tuple(notes), refusal=refusal)
    if found:
        notes += not_shared(found, sharing)
    shared = share(found, sharing, config.mps_root)
    return Offered(shared, offers(shared), tuple(notes))


def without_driver(inventory: Inventory, why: str) -> Inventory:
    """Return what was seen last, where the driver is not there any more."""
    problem = Problem(Kind.NO_DRIVER, why)
    return replace(inventory, gpus=tuple(replace(view, problem=problem) for view in inventory.gpus))
