# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which devices a node offers, under which resource names, and why not to give one away. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Final

from .._shared._core.agent import held
from .._shared._core.agent.resources import HEALTHY, UNHEALTHY
from .._shared._core.errors import NodeError
from .._shared._core.gpu import Condition, GiProfile, Gpu, GpuInstance, MigDevice
from ..config.configuration import HUNG
from ..config.sharing import GPU_RESOURCE, Naming, named, resource_name
from ..mps.settings import Offer

# A GPU, or an instance of it: the UUID and the ids of the GPU and compute instance.
Place = tuple[str, int | None, int | None]


class Kind(Enum):
    """What a problem is about, whatever its words are."""

    NO_DRIVER = "no_driver"
    HUNG = "hung"  # NVML has not answered for it for a long while
    UNREADABLE = "unreadable"
    LOST = "lost"  # off the bus, or in want of a reset
    FAULT = "fault"  # an XID, or what the GPU says of its memory
    NO_CAPABILITY = "no_capability"
    UNSHARABLE = "unsharable"  # not as MPS is asked to
    MPS = "mps"  # its MPS daemon is not ready
    HELD = held.HELD  # pods have it as something else than it is to be offered as
    ASKS = held.ASKS  # whether they have is not known yet
    NO_CDI = "no_cdi"  # no container runtime knows it
    NO_CHANNEL = "no_channel"  # a required IMEX channel is missing


@dataclass(frozen=True)
class Problem:
    """What is wrong, its ``reason`` in words; ``code`` is NVML's where it is an error of it.

    ``recovery`` is what mends it, where something does.
    """

    kind: Kind
    reason: str
    code: int = 0
    recovery: str = ""

    def __str__(self) -> str:
        return f"{self.reason}. Way back: {self.recovery}" if self.recovery else self.reason


Faults = Mapping[Place, Problem]  # what XIDs and GPUs reported
SLOW: Final = (
    4.0  # seconds that a look at a GPU may take, or its driver is slow: 5 s lie between two
)
DISPLAY_ONLY: Final = frozenset({"DGX Display", "NVIDIA DGX Display"})

Resources = Mapping[str, tuple["Device", ...]]


class EnumerationRefused(NodeError):
    """The GPUs are in a state that the MIG strategy does not allow."""


@dataclass(frozen=True)
class Device:
    """Something a container can be given. ``problem`` says why it must not be, if so.

    ``instance`` are the ids of a MIG device's instances, ``replica`` is which share of the device,
    and ``mps`` how MPS shares it, if so; else its users may take turns of ``time_slice``. Memory is
    in bytes, ``slices`` are the compute slices of a MIG device and those of its GPU.
    """

    id: str
    gpu_uuid: str
    order: tuple[int, ...]
    paths: tuple[str, ...]
    numa_node: int | None = None
    problem: Problem | None = None
    instance: tuple[int, int] | None = None
    replica: int | None = None
    memory_total: int = 0
    compute_capability: tuple[int, int] = (0, 0)
    slices: tuple[int, int] = (1, 1)
    mps: Offer | None = None
    time_slice: str = ""

    @cached_property
    def uuid(self) -> str:
        """NVML's UUID, which all replicas of a device have in common."""
        return self.id.partition("::")[0]

    @property
    def index(self) -> str:
        """NVML's index: of a GPU "0", of a MIG device "0:1"."""
        return ":".join(str(number) for number in self.order)


class Devices(tuple[Device, ...]):
    """The devices of a resource, and what each call would look up among them again."""

    @classmethod
    def of(cls, devices: Iterable[Device]) -> Devices:
        """Return the devices in this form, the same object if they have it."""
        return devices if isinstance(devices, Devices) else cls(devices)

    @cached_property
    def by_id(self) -> Mapping[str, Device]:
        """The devices by their ids."""
        return {device.id: device for device in self}

    @cached_property
    def problems(self) -> Mapping[str, str]:
        """Why devices must not be used, by UUID, as all shares of one have the same problem."""
        return {device.uuid: str(device.problem) for device in self if device.problem}

    @cached_property
    def causes(self) -> Mapping[str, str]:
        """The same without what mends it."""
        return {device.uuid: device.problem.reason for device in self if device.problem}

    @cached_property
    def shares(self) -> Mapping[str, int]:
        """How many shares each device has that is shared, by UUID."""
        return Counter(device.uuid for device in self if device.replica is not None)

    @cached_property
    def reasons(self) -> Mapping[tuple[str, str], str]:
        """What the problem of each device is about, empty without one, by UUID and index."""
        return {
            (device.uuid, device.index): device.problem.kind.value if device.problem else ""
            for device in self
        }

    @cached_property
    def health(self) -> Mapping[str, str]:
        """How the devices are, by UUID and in the kubelet's words."""
        return {device.uuid: UNHEALTHY if device.problem else HEALTHY for device in self}


@dataclass(frozen=True)
class Layout:
    """What a GPU in MIG mode can be divided into, and the GPU instances that there are."""

    profiles: tuple[GiProfile, ...] = ()
    instances: tuple[GpuInstance, ...] = ()


@dataclass(frozen=True)
class GpuView:
    """A GPU as the last scan saw it. ``problem`` says why it can't be used, if so.

    ``mig_problems`` are those of MIG devices by UUID. ``entries`` are the inodes of its entries in
    /proc and /sys, None for one that is not there. ``unnamed`` are the UUIDs of MIG devices of which
    NVML names no profile. ``brand`` is NVML's number, ``pcie_root`` is such as pci0000:16, empty where
    sysfs does not tell.
    """

    gpu: Gpu
    mig: tuple[MigDevice, ...] = ()
    numa_node: int | None = None
    problem: Problem | None = None
    condition: Condition = field(default_factory=Condition)
    mig_problems: Mapping[str, Problem] = field(default_factory=dict)
    entries: tuple[int | None, ...] = ()
    unnamed: tuple[str, ...] = ()
    layout: Layout = field(default_factory=Layout)
    brand: int | None = None
    pcie_root: str = ""


@dataclass(frozen=True)
class Inventory:
    """All GPUs of a node. ``caps`` are the minors of MIG capabilities by their name.

    ``unreadable`` says by NVML's index why each other GPU could not be read, ``strangers`` are those of
    them that were never read. ``addresses`` are those of the driver's GPUs on the PCI bus, as far as
    they are known. Where nobody answered, ``absent`` says why, and the GPUs are those seen last. NVML takes long over
    those that are ``slow``, by UUID, and has not answered for those that are ``hung`` for ``patience`` seconds.
    ``generation`` differs after the driver was loaded again. ``cuda_version`` is the newest that the driver serves,
    such as 12.4.
    """

    driver_version: str
    gpus: tuple[GpuView, ...] = ()
    caps: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[int, Problem] = field(default_factory=dict)
    strangers: tuple[Problem, ...] = ()
    addresses: frozenset[str] = frozenset()
    absent: str = ""
    slow: frozenset[str] = frozenset()
    hung: frozenset[str] = frozenset()
    patience: float = HUNG
    generation: tuple[int | None, ...] = ()
    cuda_version: str = ""

    @property
    def mig_uuids(self) -> list[str]:
        """UUIDs of all MIG devices."""
        return [mig.uuid for view in self.gpus for mig in view.mig]

    @property
    def no_answer(self) -> Problem:
        """What is wrong with those that are hung."""
        return Problem(Kind.HUNG, f"NVML has not answered for it for {self.patience:g} seconds")


def remember(before: Inventory | None, now: Inventory) -> Inventory:
    """Keep GPUs that were there before and can't be read now, as GPUs with a problem.

    Without that a broken GPU would vanish, and with it the word that its containers need to hear.
    """
    if not now.unreadable:
        return now
    present = {view.gpu.uuid for view in now.gpus}
    missing = [
        view
        for view in (before.gpus if before else ())
        if view.gpu.uuid not in present and _may_be_there(view, now.addresses)
    ]
    problems = dict(now.unreadable)
    found = [(view, problems.pop(view.gpu.index, None)) for view in missing]
    rest = iter(
        list(problems.values()) if now.addresses else ()
    )  # the indices may be other ones now
    pairs = [(view, problem or next(rest, None)) for view, problem in found]
    kept = [
        view if view.problem else replace(view, problem=problem)
        for view, problem in pairs
        if problem
    ]
    known = [problem for _view, problem in pairs]
    strangers = tuple(one for one in now.unreadable.values() if one not in known)
    everything = sorted([*now.gpus, *kept], key=lambda view: view.gpu.index)
    return replace(now, gpus=tuple(everything), strangers=strangers)


def _may_be_there(view: GpuView, addresses: frozenset[str]) -> bool:
    """Tell whether the driver still has a GPU; one that was taken from it is not there any more."""
    return not addresses or view.gpu.pci_bus_id in addresses


def judged(inventory: Inventory, faults: Faults) -> Inventory:
    """Return the inventory with what makes GPUs and MIG devices unfit."""
    return replace(inventory, gpus=tuple(_judged(one, inventory, faults) for one in inventory.gpus))


def _judged(view: GpuView, inventory: Inventory, faults: Faults) -> GpuView:
    uuid = view.gpu.uuid
    if inventory.absent:
        return replace(view, problem=Problem(Kind.NO_DRIVER, inventory.absent))
    if view.problem:
        return view
    if uuid in inventory.hung:
        return replace(view, problem=inventory.no_answer)
    ours = {place[1:]: problem for place, problem in faults.items() if place[0] == uuid}
    parts = {
        mig.uuid: problem
        for mig in view.mig
        for (gi, ci), problem in ours.items()
        if gi == mig.gi_id and ci in (None, mig.ci_id)
    }
    return replace(view, problem=ours.get((None, None)), mig_problems=parts) if ours else view


def divided(device: MigDevice) -> bool:
    """Tell whether a MIG device is only a part of its GPU instance, such as 1c.3g.40gb."""
    return "c." in device.profile


def enumerate_devices(
    inventory: Inventory, strategy: str, naming: Naming | None = None
) -> dict[str, tuple[Device, ...]]:
    """Return the devices of each resource under a MIG strategy."""
    naming = naming or Naming()
    views = [view for view in inventory.gpus if view.gpu.name not in DISPLAY_ONLY]
    if strategy == "single":
        check_single(views)
    found: dict[str, list[Device]] = {}
    for view in views:
        if strategy == "none" or not view.gpu.mig_current:
            name = named(naming.gpus, view.gpu.name) or GPU_RESOURCE
            found.setdefault(name, []).append(_whole(view))
            continue
        for mig in view.mig:
            if name := _mig_name(mig, strategy, naming):
                found.setdefault(name, []).append(_part(view, mig, inventory.caps))
    return {
        name: tuple(sorted(found[name], key=lambda device: device.order)) for name in sorted(found)
    }


def _mig_name(mig: MigDevice, strategy: str, naming: Naming) -> str:
    """Return a MIG device's resource, or an empty string where it has none."""
    if name := named(naming.mig, mig.profile):
        return name
    if strategy == "single":
        return GPU_RESOURCE
    return "" if divided(mig) else resource_name(mig.profile)


def left_out(inventory: Inventory, strategy: str, naming: Naming | None = None) -> list[str]:
    """Say which hardware a strategy leaves aside, although it is there, and what waits for a reset."""
    notes = []
    for view in inventory.gpus:
        name = f"GPU {view.gpu.index} ({view.gpu.uuid})"
        if view.gpu.uuid in inventory.slow - inventory.hung:
            notes.append(f"the driver is slow: {name} stays as it was when it answered last")
        if view.condition.rows_pending:
            notes.append(
                f"{name} replaces a memory row at its next reset, and can be used until then"
            )
        notes += [
            f"MIG device {uuid} is not advertised: NVML names no profile of it"
            for uuid in view.unnamed
            if strategy != "none"
        ]
        if strategy == "none" and view.gpu.mig_current:
            notes.append(
                f"{name} is in MIG mode but advertised as a whole, since migStrategy is none"
            )
        if strategy == "mixed" and view.gpu.mig_current:
            if not view.mig and not view.unnamed and not view.problem:
                notes.append(f"{name} is in MIG mode and has no MIG devices")
            notes += [
                f"MIG device {mig.uuid} is not advertised: there is no resource for {mig.profile}"
                for mig in view.mig
                if not _mig_name(mig, strategy, naming or Naming())
            ]
    return notes


def check_single(views: list[GpuView]) -> None:
    """Check that GPUs fit the MIG strategy single. EnumerationRefused: they don't."""
    readable = [view for view in views if not view.problem]
    on = [view for view in readable if view.gpu.mig_current]
    if len(on) not in (0, len(readable)):
        off = next(view for view in readable if not view.gpu.mig_current)
        raise EnumerationRefused(
            "migStrategy single needs MIG mode on all GPUs of the node or on none",
            cause=f"it is on for GPU {on[0].gpu.index} and off for GPU {off.gpu.index}",
            hint="set the same MIG mode everywhere, or migStrategy mixed",
        )
    for view in on:
        if not view.mig:
            raise EnumerationRefused(
                "migStrategy single needs MIG devices on every GPU in MIG mode",
                cause=f"GPU {view.gpu.index} ({view.gpu.uuid}) has none",
                hint="create MIG devices on it, or turn its MIG mode off",
            )
    profiles = sorted({mig.profile for view in on for mig in view.mig})
    if len(profiles) > 1:
        raise EnumerationRefused(
            "migStrategy single needs MIG devices that are all alike",
            cause=f"found {', '.join(profiles)}",
            hint="create one profile only, or set migStrategy mixed",
        )


def _whole(view: GpuView) -> Device:
    gpu = view.gpu
    return Device(
        id=gpu.uuid,
        gpu_uuid=gpu.uuid,
        order=(gpu.index,),
        paths=(f"/dev/nvidia{gpu.minor}",),
        numa_node=view.numa_node,
        problem=view.problem or next(iter(view.mig_problems.values()), None),
        memory_total=gpu.memory_total,
        compute_capability=gpu.compute_capability,
    )


def _part(view: GpuView, mig: MigDevice, caps: Mapping[str, int]) -> Device:
    instance = f"gpu{view.gpu.minor}/gi{mig.gi_id}"
    names = (f"{instance}/access", f"{instance}/ci{mig.ci_id}/access")
    missing = [name for name in names if name not in caps]
    problem = view.problem or view.mig_problems.get(mig.uuid)
    if missing and not problem:
        problem = Problem(Kind.NO_CAPABILITY, f"the driver lists no capability {missing[0]}")
    nodes = (f"/dev/nvidia-caps/nvidia-cap{caps[name]}" for name in names if name in caps)
    return Device(
        id=mig.uuid,
        gpu_uuid=view.gpu.uuid,
        order=(view.gpu.index, mig.mig_index),
        paths=(f"/dev/nvidia{view.gpu.minor}", *nodes),
        numa_node=view.numa_node,
        problem=problem,
        instance=(mig.gi_id, mig.ci_id),
        memory_total=mig.memory_total,
        compute_capability=view.gpu.compute_capability,
        slices=mig.slices,
    )
