# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node advertises, from what was seen of it and what its configuration asks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..cdi.specification import IMEX_FOLDER
from ..config.configuration import CDI, Config
from ..mps.settings import Offer
from .allocation import HostState, qualified
from .devices import (
    Device,
    Devices,
    EnumerationRefused,
    Inventory,
    enumerate_devices,
    judged,
    left_out,
)
from .problem import Faults, Kind, Problem
from .replicas import NO_MPS, MpsState, not_shared, offers, share


@dataclass(frozen=True)
class Offered:
    """The devices of each resource, and what there is to say of them.

    ``mps`` is what is offered in shares of MPS, by device. Where there is a ``refusal`` nothing is
    offered.
    """

    resources: Mapping[str, Devices] = field(default_factory=dict)
    mps: Mapping[str, Offer] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: EnumerationRefused | None = None

    @property
    def unsharable(self) -> str:
        """Why a device can't be shared as MPS is asked to, empty where all can."""
        return next(
            (
                f"{one.uuid}: {one.problem}"
                for devices in self.resources.values()
                for one in devices
                if one.problem and one.problem.kind is Kind.UNSHARABLE
            ),
            "",
        )


def decide(
    inventory: Inventory,
    faults: Faults,
    config: Config,
    mps: MpsState = NO_MPS,
    host: HostState | None = None,
) -> Offered:
    """Return what is advertised; a device that must not be used is there with its problem.

    Without ``host`` it is not asked whether container runtimes know the devices.
    """
    now = judged(inventory, faults)
    strategy, naming, sharing = config.mig_strategy, config.naming, config.sharing
    notes = left_out(now, strategy, naming)
    try:
        found = enumerate_devices(now, strategy, naming)
        if mps.refusal:
            raise EnumerationRefused(f"sharing.mps can't be as it is: {mps.refusal}")
    except EnumerationRefused as refusal:
        return Offered(notes=tuple(notes), refusal=refusal)
    if found:
        notes += not_shared(found, sharing)
    if host is not None:
        found = {
            name: tuple(_reachable(device, config, host) for device in devices)
            for name, devices in found.items()
        }
    shared = share(found, sharing, config.mps_root, mps)
    return Offered(shared, offers(shared), tuple(notes))


def _reachable(device: Device, config: Config, host: HostState) -> Device:
    """Return the device with what keeps containers from it, if so."""
    name = device.index if config.device_id_strategy == "index" else device.uuid
    problem = None
    if device.problem:
        return device
    if set(config.device_list_strategies) & set(CDI) and name not in host.cdi_devices:
        problem = Problem(
            Kind.NO_CDI,
            f"no container runtime knows the CDI device {qualified(name)}: the node's CDI "
            "specification does not have it. Next step: regenerate the CDI specification (gpu.node.cdi)",
        )
    elif config.imex_required and set(config.imex_channels) - set(host.imex_channels):
        problem = Problem(
            Kind.NO_CHANNEL,
            "the IMEX channels are not there: imex.required is set, and "
            f"{IMEX_FOLDER} does not have one",
        )
    return replace(device, problem=problem) if problem else device
