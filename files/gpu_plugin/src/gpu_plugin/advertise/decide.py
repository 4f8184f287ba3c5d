# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The devices that a node advertises, by its inventory and its configuration. Pure.

The kubelet counts by resource and id: a device that gets another of either is free for it, whoever has it. So one that
a pod holds in another form than the one that it would be advertised in waits for that pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple

from .._shared._base.dra.names import DEVICE_PLUGIN
from .._shared._base.errors import NodeError
from .._shared._base.gpu import EXCLUSIVE_PROCESS, PROHIBITED, MigDevice
from .._shared._base.text.shown import counted
from .._shared._node.users.allocated import UNREPORTED, Allocation, Place, places
from .._shared._node.users.allocated import Devices as OfGpu
from ..config.allocation import DEVICES, owner, unknown
from ..config.configuration import Config
from ..config.sharing import GPU_RESOURCE, Naming, Share, Sharing, named, resource_name
from ..model.inventory import (
    DISPLAY_ONLY,
    IMEX_FOLDER,
    Device,
    Devices,
    Faults,
    GpuView,
    HostState,
    Inventory,
    Kind,
    Problem,
    Resources,
    is_divided,
    judged,
)
from ..model.mps.paths import ROOT, Names
from ..model.mps.settings import Offer
from .allocation import qualified

WHOLE, TIME_SLICING, MPS = "whole", "timeSlicing", "mps"
WAITS: Final = "it waits for who holds it in another form: "
FORGOTTEN: Final = "it is given to nobody until who has it has ended: "
ASKS: Final = "it waits for the kubelet's answer whether a pod holds it in another form"
NARROW: Final[Mapping[int | None, str]] = {
    PROHIBITED: "PROHIBITED, which refuses every process",
    EXCLUSIVE_PROCESS: "EXCLUSIVE_PROCESS, which refuses a second process",
}
DIVIDED: Final = (
    "it is in MIG mode, and CDI describes no whole GPU that is. Next step: set migStrategy to mixed or single, or turn "
    "its MIG mode off (gpu.node.mig)"
)
# Of a resource: the kubelet takes a message of 4 MiB, some 64 bytes a device.
MOST_DEVICES: Final = 50_000
# By GPU, which part of it an allocation is of.
Allocations = Mapping[str, Sequence[tuple[Place, Allocation]]]


class EnumerationRefused(NodeError):
    """The GPUs are in a state that the MIG strategy does not allow."""


class Form(NamedTuple):
    """The form in which a device is advertised: by which resource, and whole or in how many shares of which kind."""

    gpu: str
    resource: str
    kind: str
    shares: int

    def is_nested(self, uuid: str, other_uuid: str, other: Form) -> bool:
        """Return whether one of two devices is the GPU that the other is a part of."""
        return uuid != other_uuid and self.gpu == other.gpu and self.gpu in (uuid, other_uuid)


class Offered(NamedTuple):
    """A device as a resource offers it, in so many replicas; None is the whole device.

    ``resource_of_kind`` is what it would be if no share gave it another name.
    """

    resource: str
    device: Device
    resource_of_kind: str
    replicas: int | None = None

    @property
    def form(self) -> Form:
        """How the device is advertised."""
        kind = MPS if self.device.mps else WHOLE if self.replicas is None else TIME_SLICING
        return Form(self.device.gpu_uuid, self.resource, kind, self.replicas or 1)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The device, or its replicas, as the kubelet gets them."""
        return (self.device,) if self.replicas is None else _replicas(self.device, self.replicas)


@lru_cache(maxsize=256)
def _replicas(device: Device, count: int) -> tuple[Device, ...]:
    """Return the same objects each time, so that a comparison of what did not change is quick."""
    return tuple(replace(device, replica=number) for number in range(count))


@dataclass(frozen=True)
class Holders:
    """The devices of pods.

    Attributes:
        allocations: What pods have, None if the kubelet has not answered yet.
        forms: Those in which devices were advertised last, by UUID.
        asked: Those for which the kubelet was asked: what it gave before they were published is in ``allocations``.
    """

    allocations: Sequence[Allocation] | None = ()
    forms: Mapping[str, Form] = field(default_factory=dict)
    asked: Mapping[str, Form] = field(default_factory=dict)


NOBODY: Final = Holders()


@dataclass(frozen=True)
class MpsState:
    """The problems of devices with MPS, by UUID.

    The daemons of devices in ``without_shm`` have no shm of their own.
    """

    problems: Mapping[str, str] = field(default_factory=dict)
    without_shm: frozenset[str] = frozenset()

    def judge(self, devices: Devices) -> Devices:
        """Return the devices with these problems; the same object if they have none."""
        if not {*self.problems, *self.without_shm} & {device.uuid for device in devices}:
            return devices
        result = []
        for device in devices:
            uuid = device.uuid
            if uuid in self.problems and not device.problem:
                device = replace(device, problem=Problem(Kind.MPS, self.problems[uuid]))
            if device.mps and uuid in self.without_shm:
                device = replace(device, mps=replace(device.mps, own_shm=False))
            result.append(device)
        return Devices(result)


@dataclass(frozen=True)
class Advertised:
    """The devices of each resource.

    Attributes:
        resources: The devices by resource.
        mps: What is advertised in shares of MPS, by device.
        notes: Warnings.
        refusal: Why nothing is advertised, None if anything may be.
        forms: How devices are advertised, by UUID.
        held: Why devices, by UUID, stay as they are on the node until nobody has them.
        offered: Each device once.
    """

    resources: Mapping[str, Devices] = field(default_factory=dict)
    mps: Mapping[str, Offer] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: EnumerationRefused | None = None
    forms: Mapping[str, Form] = field(default_factory=dict)
    held: Mapping[str, Problem] = field(default_factory=dict)
    offered: Sequence[Offered] = ()

    def judged(self, mps: MpsState) -> Advertised:
        """Return the same with the problems of MPS, which are known once MPS has to share these devices."""
        resources = {name: mps.judge(devices) for name, devices in self.resources.items()}
        return replace(self, resources=resources)

    @property
    def crowded(self) -> str:
        """Which resource has more devices than the kubelet takes, empty if none has."""
        for name, devices in self.resources.items():
            if len(devices) > MOST_DEVICES:
                return f"{name} would have {len(devices)} devices, and the kubelet takes at most {MOST_DEVICES}"
        return ""

    @property
    def unsharable(self) -> str:
        """Why a device can't be shared by MPS as configured, empty if all can."""
        for each in self.offered:
            if (why := each.device.problem) and why.kind is Kind.UNSHARABLE:
                return f"{each.device.uuid}: {why}"
        return ""

    @property
    def fit_without_mps(self) -> set[str]:
        """The UUIDs of devices without a problem that MPS does not share."""
        devices = (device for devices in self.resources.values() for device in devices)
        return {device.uuid for device in devices if not (device.mps or device.problem)}


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
    strategy, naming = config.mig_strategy, config.naming
    views, notes = judged(inventory, faults).gpus, list[str]()
    if not config.dra.unused:
        views = tuple(view for view in views if owner(view.gpu, config.dra) == DEVICE_PLUGIN)
        if not (inventory.absent or inventory.strangers):  # the missing may be among those unread
            missing = unknown([view.gpu for view in inventory.gpus], config.dra)
            notes += [f"{DEVICES} names {name}, which this node does not have" for name in missing]
    enumerated: dict[str, list[Device]] = {}
    for view in views:
        notes += _describe_gpu(view, inventory, strategy, naming)
        for name, device in _devices(view, inventory.caps, strategy, naming):
            if host is not None and not device.problem:
                device = _judge_by_host(device, view, config, host)
            enumerated.setdefault(name, []).append(device)
    if strategy == "single" and (refusal := _check_single(views)):
        return Advertised(notes=tuple(notes), refusal=refusal)
    if enumerated:
        notes += describe_sharing(enumerated, config.sharing)

    offered = offer(enumerated, config.sharing, config.sharing.mps_root)
    allocations = _by_gpu(holders.allocations or (), views)
    resources: dict[str, list[Device]] = {name: [] for name, *_device in offered}
    ids = dict[str, set[str]]()  # of the devices by resource, if there is any allocation
    for each in offered if allocations else ():
        ids.setdefault(each.resource, set()).update(device.id for device in each.devices)
    mps, forms, held = dict[str, Offer](), dict[str, Form](), dict[str, Problem]()
    for each in offered:
        device, uuid = each.device, each.device.uuid
        if device.problem is None or device.problem.kind is not Kind.UNSHARABLE:
            forms[uuid] = each.form
            if why := _why_held(each, ids.get(each.resource, ()), allocations, holders):
                held[uuid] = why
                device = replace(device, problem=device.problem or why)
        if device.mps and uuid not in held:
            mps[uuid] = device.mps
        resources[each.resource] += each._replace(device=device).devices
    by_name = {name: Devices(devices) for name, devices in resources.items()}
    return Advertised(by_name, mps, tuple(notes), None, forms, held, offered)


# --- which devices there are ---


def _devices(
    view: GpuView, caps: Mapping[str, int], strategy: str, naming: Naming
) -> Iterator[tuple[str, Device]]:
    """Yield the devices of a GPU under a MIG strategy, each with its resource. ``caps`` are the driver's."""
    gpu = view.gpu
    if gpu.name in DISPLAY_ONLY:
        return
    path = f"/dev/nvidia{gpu.minor}"
    if strategy == "none" or not gpu.mig_current:
        yield (
            named(naming.gpus, gpu.name) or GPU_RESOURCE,
            Device(
                uuid=gpu.uuid,
                gpu_uuid=gpu.uuid,
                order=(gpu.index,),
                paths=(path,),
                numa_node=view.numa_node,
                problem=view.problem or next(iter(view.mig_problems.values()), None),
                memory_total=gpu.memory_total,
                compute_capability=gpu.compute_capability,
            ),
        )
        return
    for mig in view.mig:
        name = _mig_resource(mig, strategy, naming)
        if not name:
            continue
        instance = f"gpu{gpu.minor}/gi{mig.gi_id}"
        access = (f"{instance}/access", f"{instance}/ci{mig.ci_id}/access")
        missing = [capability for capability in access if capability not in caps]
        problem = view.problem or view.mig_problems.get(mig.uuid)
        if missing and not problem:
            problem = Problem(Kind.NO_CAPABILITY, f"the driver lists no capability {missing[0]}")
        nodes = (f"/dev/nvidia-caps/nvidia-cap{caps[each]}" for each in access if each in caps)
        yield (
            name,
            Device(
                uuid=mig.uuid,
                gpu_uuid=gpu.uuid,
                order=(gpu.index, mig.mig_index),
                paths=(path, *nodes),
                numa_node=view.numa_node,
                problem=problem,
                instance=(mig.gi_id, mig.ci_id),
                memory_total=mig.memory_total,
                compute_capability=gpu.compute_capability,
                slices=mig.slices,
            ),
        )


def _mig_resource(mig: MigDevice, strategy: str, naming: Naming) -> str:
    """Return a MIG device's resource, empty if it has none."""
    if name := named(naming.mig, mig.profile):
        return name
    if strategy == "single":
        return GPU_RESOURCE
    return "" if is_divided(mig) else resource_name(mig.profile)


def _describe_gpu(
    view: GpuView, inventory: Inventory, strategy: str, naming: Naming
) -> Iterator[str]:
    """Yield what a strategy leaves out of a GPU, whether its driver is slow, and what waits for a reset."""
    name = f"GPU {view.gpu.index} ({view.gpu.uuid})"
    if view.gpu.uuid in inventory.slow - inventory.hung:
        yield f"the driver is slow: {name} stays as it was when it answered last"
    if view.condition.signs.rows and view.condition.signs.rows.pending:
        yield f"{name} replaces a memory row at its next reset, and can be used until then"
    if strategy == "none":
        if view.gpu.mig_current:
            yield f"{name} is in MIG mode but advertised as a whole, since migStrategy is none"
        return
    for uuid in view.unnamed:
        yield f"MIG device {uuid} is not advertised: NVML names no profile of it"
    if strategy == "mixed" and view.gpu.mig_current:
        if not view.mig and not view.unnamed and not view.problem:
            yield f"{name} is in MIG mode and has no MIG devices"
        for mig in view.mig:
            if not _mig_resource(mig, strategy, naming):
                yield f"MIG device {mig.uuid} is not advertised: there is no resource for {mig.profile}"


def _check_single(views: Sequence[GpuView]) -> EnumerationRefused | None:
    """Return why GPUs do not fit the MIG strategy single, None if they do."""
    readable = [view for view in views if not view.problem and view.gpu.name not in DISPLAY_ONLY]
    on = [view for view in readable if view.gpu.mig_current]
    if len(on) not in (0, len(readable)):
        off = next(view for view in readable if not view.gpu.mig_current)
        return EnumerationRefused(
            "migStrategy single needs MIG mode on all GPUs of the node or on none",
            cause=f"it is on for GPU {on[0].gpu.index} and off for GPU {off.gpu.index}",
            hint="set the same MIG mode everywhere, or migStrategy mixed",
        )
    if empty := next((view.gpu for view in on if not view.mig), None):
        return EnumerationRefused(
            "migStrategy single needs MIG devices on every GPU in MIG mode",
            cause=f"GPU {empty.index} ({empty.uuid}) has none",
            hint="create MIG devices on it, or turn its MIG mode off",
        )
    profiles = sorted({mig.profile for view in on for mig in view.mig})
    if len(profiles) > 1:
        return EnumerationRefused(
            "migStrategy single needs MIG devices that are all alike",
            cause=f"found {', '.join(profiles)}",
            hint="create one profile only, or set migStrategy mixed",
        )
    return None


def _judge_by_host(device: Device, view: GpuView, config: Config, host: HostState) -> Device:
    """Return the device with what the node lacks that containers with it need."""
    containers = config.containers
    name = device.index if containers.device_id_strategy == "index" else device.uuid
    kind, text = Kind.NO_CDI, ""
    if containers.asks_cdi and name not in host.cdi_devices:
        text = (
            f"no container runtime knows the CDI device {qualified(name)}: the node's CDI specification does not have "
            "it. Next step: regenerate the CDI specification (gpu.node.cdi)"
        )
        if view.gpu.mig_current and device.instance is None:
            text = DIVIDED
    elif containers.asks_cdi and (gone := host.cdi_lacking.get(name)):
        text = (
            f"no container with it starts: the node's CDI specification names {gone}, which is not there. Next step: "
            "load the driver that is installed, or regenerate the CDI specification (gpu.node.cdi)"
        )
    elif containers.imex_required and {*containers.imex_channels} - {*host.imex_channels}:
        kind = Kind.NO_CHANNEL
        text = f"the IMEX channels are not there: imex.required is set, and {IMEX_FOLDER} does not have one"
    return replace(device, problem=Problem(kind, text)) if text else device


# --- how they are shared ---


def offer(
    resources: Mapping[str, Sequence[Device]], sharing: Sharing, mps_root: str = ROOT
) -> list[Offered]:
    """Return the devices as they are offered, by resource and in their order.

    A device goes to the first share that names it; a device that no share names stays as it is. One
    that can't be shared by MPS as configured is there with that as its problem.
    """
    offered: list[Offered] = []
    for name, devices in resources.items():
        left = sorted(devices, key=lambda device: device.order)
        for share in sharing.shares:
            if share.name == name:
                taken = left[: share.first]
                if share.devices:
                    taken = [each for each in left if not _names(each).isdisjoint(share.devices)]
                left = [device for device in left if device not in taken]
                offered += [_offer(device, share, mps_root) for device in taken]
        offered += [Offered(name, device, name) for device in left]
    return sorted(offered, key=lambda each: (each.resource, each.device.order))


def _offer(device: Device, share: Share, mps_root: str) -> Offered:
    """Return a device with how it is shared."""
    replicas = share.replicas if share.mps or share.replicas > 1 else None
    if share.mps is not None:
        try:
            settings = share.mps.on(device.compute_capability, mps_root)
            shares = settings.shares(device.memory_total, device.compute_capability, device.slices)
            device = replace(device, mps=Offer(Names(device.uuid, mps_root), settings, shares))
        except NodeError as error:
            problem = Problem(Kind.UNSHARABLE, f"it can't be shared by MPS: {error}")
            device = replace(device, problem=device.problem or problem)
    elif replicas:  # else nothing is shared: only the name may differ
        device = replace(device, time_slice=share.time_slice)
    return Offered(share.offered_as, device, share.name, replicas)


def _names(device: Device) -> set[str]:
    names = {device.uuid, device.index}
    if device.instance is not None:
        gi, ci = device.instance
        names.add(f"MIG-{device.gpu_uuid}/{gi}/{ci}")
    return names


def describe_sharing(resources: Mapping[str, Sequence[Device]], sharing: Sharing) -> Iterator[str]:
    """Yield a message for each share of the configuration that matches no device of this node."""
    for share in sharing.shares:
        devices = resources.get(share.name, ())
        if not devices:
            yield f"sharing names {share.name}, which this node does not have"
            continue
        for reference in share.devices:
            if not any(reference in _names(device) for device in devices):
                yield f"sharing names device {reference}, which is none of {share.name}"
        if share.time_slice and any(device.instance is not None for device in devices):
            yield f"timeSlice has no effect on {share.name}: MIG devices have none"


# --- who holds them in another form ---


def _by_gpu(allocations: Sequence[Allocation], views: Sequence[GpuView]) -> Allocations:
    gpus = [OfGpu(view.gpu, view.layout.instances, view.mig) for view in views]
    by_gpu: dict[str, list[tuple[Place, Allocation]]] = {}
    for allocation in allocations:
        for place in places(allocation, gpus):
            by_gpu.setdefault(place.gpu, []).append((place, allocation))
    return by_gpu


def _why_held(
    offered: Offered, ids: Collection[str], allocations: Allocations, holders: Holders
) -> Problem | None:
    """Return why a device must not be allocated as it is offered, None if it may. ``ids`` are its resource's."""
    device, form = offered.device, offered.form
    place, before = Place(device.gpu_uuid, *(device.instance or ())), holders.forms.get(device.uuid)
    same_kind = (before or form).kind == form.kind
    conflicting = [
        allocation
        for held, allocation in allocations.get(device.gpu_uuid, ())
        if all(a == b or None in (a, b) for a, b in zip(held, place, strict=True))
        and not (same_kind and allocation.resource == form.resource and allocation.device in ids)
    ]
    if conflicting:
        unreported = [each for each in conflicting if each.resource == UNREPORTED]
        named = unreported or conflicting
        more = len({(each.namespace, each.pod) for each in named}) - 1
        pods = f"{named[0]}" + (f" and {counted(more, 'more pod')}" if more else "")
        return Problem(Kind.HELD, (FORGOTTEN if unreported else WAITS) + pods)
    if holders.allocations is None:
        is_open = before != form
    else:
        nested = (form.is_nested(device.uuid, *item) for item in holders.forms.items())
        is_open = holders.asked.get(device.uuid) != form and (
            before not in (None, form) or any(nested)
        )
    return Problem(Kind.ASKS, ASKS) if is_open else None


# --- what else there is to say of it ---


def narrow(advertised: Advertised, before: Advertised, inventory: Inventory) -> list[str]:
    """Return a message for each GPU whose compute mode admits fewer processes than its users may have, without MPS.

    They were fit ``before`` as well: of a mode that MPS has just given back the last look knows nothing.
    """
    fit = advertised.fit_without_mps & before.fit_without_mps
    return [
        f"GPU {view.gpu.index} ({view.gpu.uuid}) is in compute mode {mode}. "
        f"Next step: nvidia-smi --id={view.gpu.uuid} --compute-mode=DEFAULT"
        for view in inventory.gpus
        if view.gpu.uuid in fit and (mode := NARROW.get(view.condition.compute_mode))
    ]


def divided(inventory: Inventory, config: Config) -> list[str]:
    """Return the GPUs that can't be allocated since they are in MIG mode, and migStrategy advertises whole ones."""
    if config.mig_strategy != "none" or not config.containers.asks_cdi:
        return []
    return [view.gpu.uuid for view in inventory.gpus if view.gpu.mig_current]


def time_slices(resources: Resources) -> dict[str, str]:
    """Return by GPU the time slice that is asked for. MIG devices have none of their own."""
    return {
        device.uuid: device.time_slice
        for devices in resources.values()
        for device in devices
        if device.time_slice and device.instance is None
    }
