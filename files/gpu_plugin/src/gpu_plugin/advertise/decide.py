# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node advertises, from what was seen of it and what its configuration asks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from .._shared._base.dra.names import DEVICE_PLUGIN
from .._shared._base.errors import NodeError
from .._shared._base.gpu import EXCLUSIVE_PROCESS, PROHIBITED
from ..config.configuration import Config
from ..config.sharing import Share, Sharing
from ..model.inventory import (
    IMEX_FOLDER,
    Device,
    Devices,
    Faults,
    HostState,
    Inventory,
    Kind,
    Problem,
    Resources,
    judged,
)
from ..model.mps.paths import ROOT, Names
from ..model.mps.settings import Offer
from .allocation import qualified
from .devices import EnumerationRefused, enumerate_devices, left_out, misnamed, owned
from .held import NOBODY, Form, Holders, forms, held


@dataclass(frozen=True)
class MpsState:
    """What MPS has against devices at the moment, by UUID.

    The daemons of devices in ``without_shm`` have no shm of their own.
    """

    problems: Mapping[str, str] = field(default_factory=dict)
    without_shm: frozenset[str] = frozenset()

    def judge(self, devices: Devices) -> Devices:
        """Return devices with what there is to say of them."""
        concerned = {*self.problems, *self.without_shm}
        if concerned.isdisjoint(one.uuid for one in devices):
            return devices
        return Devices(self._judged(one) if one.uuid in concerned else one for one in devices)

    def _judged(self, device: Device) -> Device:
        uuid = device.uuid
        if uuid in self.problems and not device.problem:
            device = replace(device, problem=Problem(Kind.MPS, self.problems[uuid]))
        if device.mps and uuid in self.without_shm:
            device = replace(device, mps=replace(device.mps, own_shm=False))
        return device


NARROW: Final[Mapping[int | None, str]] = {
    PROHIBITED: "PROHIBITED, which refuses every process",
    EXCLUSIVE_PROCESS: "EXCLUSIVE_PROCESS, which refuses a second process",
}
DIVIDED: Final = (
    "it is in MIG mode, and CDI describes no whole GPU that is. Next step: set migStrategy to mixed or single, or turn "
    "its MIG mode off (gpu.node.mig)"
)
MOST_DEVICES: Final = (
    50_000  # of a resource: the kubelet takes a message of 4 MiB, some 64 bytes a device
)


def share(resources: Resources, sharing: Sharing, mps_root: str = ROOT) -> dict[str, Devices]:
    """Return the resources with what is shared as replicas, under the names that these have.

    A device goes to the first share that asks for it; what no share asks for stays as it is. One
    that can't be shared as MPS is asked to is there with that as its problem.
    """
    found: dict[str, list[Device]] = {}
    for name, devices in resources.items():
        rest = list(devices)
        for one in sharing.shares:
            if one.name == name:
                taken = _taken(rest, one)
                rest = [device for device in rest if device not in taken]
                for device in taken:
                    found.setdefault(one.offered_as, []).extend(_shared(device, one, mps_root))
        found.setdefault(name, []).extend(rest)
    return {
        name: Devices(sorted(found[name], key=lambda device: (device.order, device.replica or 0)))
        for name in sorted(found)
        if found[name]
    }


def not_shared(resources: Resources, sharing: Sharing) -> list[str]:
    """Say which shares find nothing on this node."""
    notes = []
    for one in sharing.shares:
        known = resources.get(one.name, ())
        if not known:
            notes.append(f"sharing names {one.name}, which this node does not have")
        notes += [
            f"sharing names device {reference}, which is none of {one.name}"
            for reference in one.devices
            if known and not any(reference in _names(device) for device in known)
        ]
        if one.time_slice and any(device.instance is not None for device in known):
            notes.append(f"timeSlice has no effect on {one.name}: MIG devices have none")
    return notes


def offers(resources: Resources) -> dict[str, Offer]:
    """Return by device what is advertised in shares of MPS."""
    return {one.uuid: one.mps for devices in resources.values() for one in devices if one.mps}


def narrow(now: Advertised, before: Advertised, inventory: Inventory) -> list[str]:
    """Say which GPUs let in fewer processes than their users may have, though they are not shared by MPS.

    They were fit ``before`` as well: of a mode that MPS has just given back the last look knows nothing.
    """
    fit = _without_mps(now) & _without_mps(before)
    return [
        f"GPU {one.gpu.index} ({one.gpu.uuid}) is in compute mode {words}. "
        f"Next step: nvidia-smi --id={one.gpu.uuid} --compute-mode=DEFAULT"
        for one in inventory.gpus
        if one.gpu.uuid in fit and (words := NARROW.get(one.condition.compute_mode))
    ]


def divided(inventory: Inventory, config: Config) -> list[str]:
    """Return the GPUs that are given to nobody since they are in MIG mode, and migStrategy asks for whole ones."""
    if config.mig_strategy != "none" or not config.asks_cdi:
        return []
    return [view.gpu.uuid for view in inventory.gpus if view.gpu.mig_current]


def _without_mps(advertised: Advertised) -> set[str]:
    found = (one for devices in advertised.resources.values() for one in devices)
    return {one.uuid for one in found if not (one.mps or one.problem)}


def time_slices(resources: Resources) -> dict[str, str]:
    """Return by GPU the time slice that is asked for. MIG devices have none of their own."""
    return {
        one.uuid: one.time_slice
        for devices in resources.values()
        for one in devices
        if one.time_slice and one.instance is None
    }


def _taken(devices: list[Device], one: Share) -> list[Device]:
    if not one.devices:
        return devices[: one.first]
    return [device for device in devices if not _names(device).isdisjoint(one.devices)]


def _names(device: Device) -> set[str]:
    names = {device.uuid, device.index}
    if device.instance is not None:
        gi, ci = device.instance
        names.add(f"MIG-{device.gpu_uuid}/{gi}/{ci}")
    return names


def _shared(device: Device, one: Share, root: str) -> tuple[Device, ...]:
    if one.replicas == 1 and one.mps is None:  # nothing is shared: only the name may be another one
        return (device,)
    return _replicas(_advertised(device, one, root), one.replicas)


def _advertised(device: Device, one: Share, root: str) -> Device:
    """Return a device with how it is shared."""
    if one.mps is None:
        return replace(device, time_slice=one.time_slice)
    try:
        settings = one.mps.on(device.compute_capability, root)
        shares = settings.shares(device.memory_total, device.compute_capability, device.slices)
        return replace(device, mps=Offer(Names(device.uuid, root), settings, shares))
    except NodeError as error:
        problem = Problem(Kind.UNSHARABLE, f"it can't be shared by MPS: {error}")
        return replace(device, problem=device.problem or problem)


@lru_cache(maxsize=256)
def _replicas(device: Device, count: int) -> tuple[Device, ...]:
    """Return the same objects each time, so that a comparison of what did not change is quick."""
    return tuple(
        replace(device, id=f"{device.uuid}::{number}", replica=number) for number in range(count)
    )


@dataclass(frozen=True)
class Advertised:
    """The devices of each resource, and what there is to say of them.

    ``mps`` is what is advertised in shares of MPS, by device, and ``forms`` is how all are. What is ``held``, by
    UUID, stays as it is on the node until nobody has it. Where there is a ``refusal`` nothing is advertised.
    """

    resources: Mapping[str, Devices] = field(default_factory=dict)
    mps: Mapping[str, Offer] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: EnumerationRefused | None = None
    forms: Mapping[str, Form] = field(default_factory=dict)
    held: Mapping[str, Problem] = field(default_factory=dict)

    def judged(self, mps: MpsState) -> Advertised:
        """Return the same with what MPS has against devices, which it is asked once these are what it is to share."""
        found = {name: mps.judge(those) for name, those in self.resources.items()}
        return replace(self, resources=found)

    @property
    def crowded(self) -> str:
        """Which resource has more devices than the kubelet can be told of, empty where none has."""
        return next(
            (
                f"{name} would have {len(devices)} devices, and the kubelet takes at most {MOST_DEVICES}"
                for name, devices in self.resources.items()
                if len(devices) > MOST_DEVICES
            ),
            "",
        )

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
    host: HostState | None = None,
    holders: Holders = NOBODY,
) -> Advertised:
    """Return what is advertised; a device that must not be used is there with its problem.

    Without ``host`` it is not asked whether container runtimes know the devices. Of a GPU that the
    DRA driver gives to containers nothing is advertised.
    """
    dra, notes = config.dra, []
    if not dra.unused:
        notes = misnamed(inventory, dra)
        inventory = owned(inventory, dra, DEVICE_PLUGIN)
    now = judged(inventory, faults)
    strategy, naming, sharing = config.mig_strategy, config.naming, config.sharing
    notes += left_out(now, strategy, naming)
    try:
        found = enumerate_devices(now, strategy, naming)
    except EnumerationRefused as refusal:
        return Advertised(notes=tuple(notes), refusal=refusal)
    if found:
        notes += not_shared(found, sharing)
    if host is not None:
        divided = frozenset(view.gpu.uuid for view in now.gpus if view.gpu.mig_current)
        found = {
            name: tuple(_reachable(device, config, host, divided) for device in devices)
            for name, devices in found.items()
        }
    shared = share(found, sharing, config.mps_root)
    mps_offers, as_advertised = offers(shared), forms(shared)
    waiting = held(shared, holders, now, as_advertised)
    if waiting:
        shared = {name: _held_back(devices, waiting) for name, devices in shared.items()}
        mps_offers = {uuid: one for uuid, one in mps_offers.items() if uuid not in waiting}
    return Advertised(shared, mps_offers, tuple(notes), forms=as_advertised, held=waiting)


def _held_back(devices: Devices, waiting: Mapping[str, Problem]) -> Devices:
    """Return devices with what keeps them from others than those who hold them."""
    return Devices(
        replace(one, problem=waiting[one.uuid]) if one.uuid in waiting and not one.problem else one
        for one in devices
    )


def _reachable(device: Device, config: Config, host: HostState, divided: frozenset[str]) -> Device:
    """Return the device with what keeps containers from it, if so; GPUs in MIG mode are ``divided``."""
    name = device.index if config.device_id_strategy == "index" else device.uuid
    problem = None
    if device.problem:
        return device
    if config.asks_cdi and name not in host.cdi_devices:
        problem = Problem(
            Kind.NO_CDI,
            DIVIDED
            if device.uuid in divided
            else f"no container runtime knows the CDI device {qualified(name)}: the node's CDI "
            "specification does not have it. Next step: regenerate the CDI specification (gpu.node.cdi)",
        )
    elif config.asks_cdi and (gone := host.cdi_lacking.get(name)):
        problem = Problem(
            Kind.NO_CDI,
            f"no container with it starts: the node's CDI specification names {gone}, which is not there. Next step: "
            "load the driver that is installed, or regenerate the CDI specification (gpu.node.cdi)",
        )
    elif config.imex_required and set(config.imex_channels) - set(host.imex_channels):
        problem = Problem(
            Kind.NO_CHANNEL,
            "the IMEX channels are not there: imex.required is set, and "
            f"{IMEX_FOLDER} does not have one",
        )
    return replace(device, problem=problem) if problem else device
