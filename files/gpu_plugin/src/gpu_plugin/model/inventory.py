# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node's GPUs as the last look saw them, their problems, and the devices that containers can get of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Final

from .._shared._base.gpu import Condition, GiProfile, Gpu, GpuInstance, MigDevice
from .._shared._base.services.driver import MAKE_NODES
from .._shared._device_plugin import held
from .._shared._device_plugin.resources import HEALTHY, UNHEALTHY
from .._shared._node.quarantine import EMPTY, GATE, Quarantine
from .._shared._repair.signs import Action, Answer, GpuSigns, NodeSigns
from .._shared._repair.verdict import ANSWERS, GpuVerdict, judge_gpu
from .mps.settings import Offer

HUNG: Final = 60.0  # seconds without an answer after which nobody waits for a driver any more
SLOW: Final = 4.0  # seconds after which a look at a GPU is slow: 5 s lie between two
RELEASE: Final = "gpu.node.release"
ACCEPT: Final = "gpu.node.accept"
BY_ITSELF: Final = "it passes by itself"
VENDOR: Final = "k8s.device-plugin.nvidia.com"
KIND: Final = f"{VENDOR}/gpu"
IMEX_FOLDER: Final = "/dev/nvidia-caps-imex-channels"
DISPLAY_ONLY: Final = frozenset({"DGX Display", "NVIDIA DGX Display"})

# A GPU, or an instance of it: the UUID and the ids of the GPU and compute instance.
Place = tuple[str, int | None, int | None]


class Kind(Enum):
    """The subject of a problem."""

    NO_DRIVER = "no_driver"
    HUNG = "hung"  # NVML has not answered for it for a long while
    UNREADABLE = "unreadable"
    LOST = "lost"  # off the bus, or in want of a reset
    QUARANTINED = "quarantined"  # somebody has set it aside
    FAULT = "fault"  # an XID, or what the GPU says of its memory
    NO_NODE = "no_node"  # a device node that all GPUs share is missing
    NO_CAPABILITY = "no_capability"
    UNSHARABLE = "unsharable"  # not as MPS is asked to
    MPS = "mps"  # its MPS daemon is not ready
    HELD = held.HELD  # pods have it as something else than it is to be advertised as
    ASKS = held.ASKS  # whether they have is not known yet
    NO_CDI = "no_cdi"  # no container runtime knows it
    NO_CHANNEL = "no_channel"  # a required IMEX channel is missing


@dataclass(frozen=True)
class Problem:
    """A problem of a GPU or device.

    Attributes:
        kind: What it is about.
        reason: What is wrong, in words.
        code: NVML's error code, if it is an error of NVML.
        recovery: What ends it, in words, if anything does.
        verdict: What is to be done about the GPU.
        since: When a fault began, in seconds since 1970.
        clearable: Whether `gpu-plugin health clear` ends a fault.
        xid: The XID that the driver reported, 0 if it reported none.
    """

    kind: Kind
    reason: str
    code: int = 0
    recovery: str = ""
    verdict: Action = Action.NONE
    since: int = field(default=0, compare=False)
    clearable: bool = field(default=False, compare=False)
    xid: int = 0

    def __str__(self) -> str:
        verdict = f"Verdict: {self.verdict.word}" if self.verdict else ""
        recovery = f"Way back: {self.recovery}" if self.recovery else ""
        return ". ".join(filter(None, (self.reason, verdict, recovery)))


Faults = Mapping[Place, Problem]  # what XIDs and GPUs reported


@dataclass(frozen=True)
class Unhealthy:
    """A GPU, or one of its MIG instances if ``gi`` is given, and why it must not be used.

    ``index`` is NVML's, empty for a GPU that is gone. ``verdict`` is the verdict's name, and ``xid`` the XID that the
    driver reported, None if there was none. The other fields are as in Problem.
    """

    gpu: str
    index: str
    gi: int | None
    ci: int | None
    kind: str
    reason: str
    since: int
    way_back: str
    clearable: bool
    verdict: str
    xid: int | None

    @classmethod
    def of(cls, place: Place, index: str, kind: Kind, problem: Problem) -> Unhealthy:
        """Return a place with its problem, which counts as this kind."""
        why = (kind.value, problem.reason, problem.since, problem.recovery, problem.clearable)
        gpu, gi, ci = place
        return cls(gpu, index, gi, ci, *why, problem.verdict.word, problem.xid or None)


@dataclass(frozen=True)
class Layout:
    """The profiles of a GPU in MIG mode, and its GPU instances."""

    profiles: tuple[GiProfile, ...] = ()
    instances: tuple[GpuInstance, ...] = ()


@dataclass(frozen=True)
class GpuView:
    """A GPU as the last scan saw it.

    Attributes:
        problem: Why it can't be used, None if it can.
        mig_problems: The problems of MIG devices by UUID.
        entries: The inodes of its entries in /proc and /sys, None for one that is not there.
        unnamed: The UUIDs of MIG devices of which NVML names no profile.
        brand: NVML's number.
        pcie_root: Its root complex such as pci0000:16, empty if sysfs does not have it.
        quarantined: Why it is in quarantine, empty if it is not.
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
    quarantined: str = ""

    @cached_property
    def verdict(self) -> GpuVerdict:
        """The verdict by what the GPU and its driver report at present, without XIDs."""
        return judge_gpu(NodeSigns(), GpuSigns("", signs=self.condition.signs))


@dataclass(frozen=True)
class Inventory:
    """All GPUs of a node.

    Attributes:
        caps: The minors of MIG capabilities by their name.
        unreadable: Why each other GPU could not be read, by NVML's index.
        strangers: The problems of those of them that were never read.
        addresses: The driver's GPUs on the PCI bus, as far as they are known.
        absent: Why the driver did not answer, empty if it did; the GPUs are those seen last then.
        slow: The GPUs, by UUID, over which NVML takes long.
        hung: The GPUs for which NVML has not answered for ``patience`` seconds.
        generation: Differs after the driver was loaded again.
        cuda_version: The newest that the driver serves, such as 12.4.
        quarantine: What is in quarantine, or held by the gate of the node.
        gated: Whether the node has a gate.
        nodes: What is wrong with the device nodes that all GPUs share, empty if nothing is.
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
    quarantine: Quarantine = EMPTY
    gated: bool = False
    nodes: str = ""

    @property
    def mig_uuids(self) -> list[str]:
        """UUIDs of all MIG devices."""
        return [mig.uuid for view in self.gpus for mig in view.mig]

    @property
    def no_answer(self) -> Problem:
        """The problem of GPUs that are hung."""
        reason = f"NVML has not answered for it for {self.patience:g} seconds"
        recovery = f"{BY_ITSELF} as soon as NVML answers for it again"
        return Problem(Kind.HUNG, reason, recovery=recovery, verdict=ANSWERS[Answer.NEVER][0])


def remember(before: Inventory | None, inventory: Inventory) -> Inventory:
    """Return the inventory with GPUs that were there before and can't be read now, as GPUs with a problem.

    Without that a broken GPU would vanish, and its containers would not learn of its problem.
    """
    if not inventory.unreadable:
        return inventory
    present = {view.gpu.uuid for view in inventory.gpus}
    addresses = inventory.addresses  # a GPU that was taken from the driver is not there any more
    missing = [
        view
        for view in (before.gpus if before else ())
        if view.gpu.uuid not in present and (not addresses or view.gpu.pci_bus_id in addresses)
    ]
    problems = dict(inventory.unreadable)
    by_index = [(view, problems.pop(view.gpu.index, None)) for view in missing]
    # The indices may have changed.
    left = iter(list(problems.values()) if addresses else ())
    pairs = [(view, problem or next(left, None)) for view, problem in by_index]
    broken = [
        view if view.problem else replace(view, problem=problem)
        for view, problem in pairs
        if problem
    ]
    assigned = [problem for _view, problem in pairs]
    strangers = tuple(each for each in inventory.unreadable.values() if each not in assigned)
    gpus = sorted([*inventory.gpus, *broken], key=lambda view: view.gpu.index)
    return replace(inventory, gpus=tuple(gpus), strangers=strangers)


def judged(inventory: Inventory, faults: Faults) -> Inventory:
    """Return the inventory with what makes GPUs and MIG devices unhealthy."""
    gpus = tuple(_judge_gpu(view, inventory, faults) for view in inventory.gpus)
    return replace(inventory, gpus=gpus)


def _judge_gpu(view: GpuView, inventory: Inventory, faults: Faults) -> GpuView:
    """Return a GPU with its problem; a quarantine counts as one if it has no other."""
    uuid, problem, parts = view.gpu.uuid, view.problem, view.mig_problems
    if inventory.absent:
        problem = Problem(Kind.NO_DRIVER, inventory.absent)
    elif problem:
        pass
    elif uuid in inventory.hung:
        problem = inventory.no_answer
    elif inventory.nodes:
        reason = f"{inventory.nodes}, and no container has CUDA without it. Next step: {MAKE_NODES}"
        problem = Problem(Kind.NO_NODE, reason)
    elif ours := {place[1:]: fault for place, fault in faults.items() if place[0] == uuid}:
        problem = ours.get((None, None))
        parts = {
            mig.uuid: fault
            for mig in view.mig
            for (gi, ci), fault in ours.items()
            if gi == mig.gi_id and ci in (None, mig.ci_id)
        }
    entry = inventory.quarantine.of(uuid) if inventory.quarantine != EMPTY else None
    if entry:
        recovery = ACCEPT if entry.author == GATE else RELEASE
        problem = problem or Problem(Kind.QUARANTINED, str(entry), recovery=recovery)
    elif problem is view.problem and parts is view.mig_problems:
        return view
    quarantined = entry.why if entry else view.quarantined
    return replace(view, problem=problem, mig_problems=parts, quarantined=quarantined)


def is_divided(device: MigDevice) -> bool:
    """Return whether a MIG device is only a part of its GPU instance, such as 1c.3g.40gb."""
    return "c." in device.profile


@dataclass(frozen=True)
class HostState:
    """The node's device nodes, IMEX channels and CDI devices.

    ``cdi_added`` are the qualified names of CDI devices of other classes than gpu, ``cdi_lacking`` the missing file of
    each CDI device that lacks one.
    """

    control_nodes: tuple[str, ...] = ()
    imex_channels: tuple[str, ...] = ()
    cdi_devices: frozenset[str] = frozenset()
    cdi_added: frozenset[str] = frozenset()
    cdi_lacking: Mapping[str, str] = field(default_factory=dict)


Resources = Mapping[str, tuple["Device", ...]]


@dataclass(frozen=True)
class Device:
    """A device that a container can get.

    Attributes:
        uuid: NVML's, which all replicas of a device have in common.
        order: NVML's indices: of the GPU, and of a MIG device.
        problem: Why it must not be allocated, None if it may.
        instance: The ids of a MIG device's instances.
        replica: The number of the share, None for the whole device.
        memory_total: In bytes.
        slices: The compute slices of a MIG device and those of its GPU.
        mps: How MPS shares it, if it does.
        time_slice: How long its users take turns else.
    """

    uuid: str
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
    def id(self) -> str:
        """Its id for the kubelet."""
        return self.uuid if self.replica is None else f"{self.uuid}::{self.replica}"

    @property
    def index(self) -> str:
        """NVML's index: of a GPU "0", of a MIG device "0:1"."""
        return ":".join(str(number) for number in self.order)


class Devices(tuple[Device, ...]):
    """The devices of a resource, with what calls look up among them."""

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
        """The reasons of the problems alone, without their recovery."""
        return {device.uuid: device.problem.reason for device in self if device.problem}

    @cached_property
    def shares(self) -> Mapping[str, int]:
        """The number of shares of each shared device, by UUID."""
        return Counter(device.uuid for device in self if device.replica is not None)

    @cached_property
    def reasons(self) -> Mapping[tuple[str, str], str]:
        """The kind of each device's problem, empty without one, by UUID and index."""
        return {
            (device.uuid, device.index): device.problem.kind.value if device.problem else ""
            for device in self
        }

    @cached_property
    def health(self) -> Mapping[str, str]:
        """The health of the devices by UUID, in the kubelet's words."""
        return {device.uuid: UNHEALTHY if device.problem else HEALTHY for device in self}
