# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the kubelet has given to pods: who has which device, and which GPU or MIG instance that is."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._base.dra.checkpoint import load
from ..._base.dra.names import DRIVER
from ..._base.errors import NodeError
from ..._base.gpu import Gpu, GpuInstance, MigDevice
from ..._base.text import json_data
from ..._base.text.shown import printable

# The kubelet's root folders: that of most distributions, k0s' and MicroK8s'; and its PodResources socket there.
ROOTS = ("/var/lib/kubelet", "/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet")
SOCKET = "pod-resources/kubelet.sock"
VERSION = 1  # of what "gpu-plugin pods --json" answers
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Drivers before 470 named a MIG device by the GPU's UUID and its two instances.
OLD_MIG = re.compile(rf"MIG-(GPU-{UUID})/(\d+)/(\d+)")
NAMED = re.compile(rf"(?:GPU|MIG)-{UUID}")
# "0" and "0:1", with "::2" for a replica: as configurations and NVML number devices.
INDEX = re.compile(r"(\d{1,4})(?::(\d{1,4}))?(?:::\d+)?")
# "nvidia0", "nvidia0/gi1" and "nvidia0/gi1/vgpu2" of Google's device plugin.
NODE = re.compile(r"nvidia(\d{1,4})(?:/gi(\d{1,4}))?(?:/vgpu\d+)?")
# "gpu-0" and "gpu-0-mig-19-4-1" of NVIDIA's DRA driver: minor, profile, placement.
DRA = re.compile(r"(?:^|.*[=-])gpu-(\d{1,4})(?:-mig-(\d{1,4})-(\d{1,4})-(\d{1,4}))?")
# "gpu-0", "gpu-0-share" and "gpu-0-mig-1g10gb-19-4" of ours: minor, profile with its id, placement.
OUR_DRA = re.compile(r"(?:^|.*[=-])gpu-(\d{1,4})(?:-share|-mig-\d[a-z0-9-]*-(\d{1,4})-(\d{1,4}))?")
ADDRESS = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# In place of a resource: a running container has the device, and the kubelet names nobody.
UNREPORTED = "unreported"
# NVIDIA's network operator has resources of nvidia.com that are no GPUs.
GPU_RESOURCE = re.compile(
    rf"nvidia\.com/(gpu|mig-).*|(.*[./])?gpu\.nvidia\.com(/.*)?|gpu\.node(/.*)?|{UNREPORTED}"
)


@dataclasses.dataclass(frozen=True)
class Allocation:
    """A device that a container was given; ``device`` is the id that its plugin or DRA driver uses.

    ``resource`` is that of the device plugin, such as nvidia.com/gpu, or the name of the DRA driver. Without
    a ``container`` it is a claim that has the device, and ``pod`` is the claim's name. With the resource UNREPORTED
    the kubelet does not know of it: ``container`` is an id, and ``device`` is named as its node is.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    device: str

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.pod}" if self.namespace else self.pod
        device = self.device.partition("::")[0]
        holder = f"pod {name} (container {self.container})" if self.container else f"claim {name}"
        if self.resource == UNREPORTED:
            return printable(f"{holder} with {device}, of which the kubelet does not know")
        return printable(f"{holder} with {self.resource} {device}")


class Place(t.NamedTuple):
    """A GPU, or one of its instances, or a compute instance of it; None is the whole of it."""

    gpu: str
    gi: t.Optional[int] = None
    ci: t.Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who has a place, in words; the ids of instances are None on a whole GPU."""

    who: str
    gi_id: t.Optional[int] = None
    ci_id: t.Optional[int] = None

    def __str__(self) -> str:
        return self.who


Holders = t.Dict[str, t.Tuple[Holder, ...]]  # by the UUID of a GPU


class Devices(t.NamedTuple):
    """A GPU with what of it can be allocated."""

    gpu: Gpu
    instances: t.Tuple[GpuInstance, ...] = ()
    migs: t.Tuple[MigDevice, ...] = ()


def is_gpu(allocation: Allocation) -> bool:
    """Return whether an allocation is of a GPU or a part of one, by whichever plugin or driver."""
    return bool(GPU_RESOURCE.fullmatch(allocation.resource) or NAMED.search(allocation.device))


def names(allocations: t.Iterable[Allocation]) -> t.Tuple[str, ...]:
    """Say who has a GPU, or a part of one, once for each device."""
    return tuple(dict.fromkeys(str(allocation) for allocation in allocations if is_gpu(allocation)))


def places(allocation: Allocation, node: t.Sequence[Devices]) -> t.List[Place]:
    """Return where a device is that a container was given: on no GPU where it is gone or of another kind.

    An id that can't be read is on every GPU: what it stands for is not known, so none is taken from it.
    """
    if not is_gpu(allocation):
        return []
    old, named = OLD_MIG.search(allocation.device), NAMED.search(allocation.device)
    if old:
        whole = [each for each in node if each.gpu.uuid == old[1]]
        return [Place(each.gpu.uuid, int(old[2]), int(old[3])) for each in whole]
    if named:
        wholes = [Place(each.gpu.uuid) for each in node if each.gpu.uuid == named[0]]
        migs = (mig for each in node for mig in each.migs)
        return wholes or [_mig(mig) for mig in migs if mig.uuid == named[0]]
    for pattern, read in OURS if allocation.resource.startswith(DRIVER) else PATTERNS:
        match = pattern.fullmatch(allocation.device)
        if match:
            return [place for each in node for place in read(match, each)]
    if ADDRESS.fullmatch(allocation.device.lower()):
        tail = allocation.device.lower()[-7:]
        return [Place(each.gpu.uuid) for each in node if each.gpu.pci_bus_id.lower()[-7:] == tail]
    parts = [
        (each.gpu.uuid, gi)
        for each in node
        for gi in (None, *(instance.id for instance in each.instances))
    ]
    return [Place(*part) for part in parts]


def _indexed(match: t.Match[str], on: Devices) -> t.List[Place]:
    if int(match[1]) != on.gpu.index:
        return []
    if match[2] is None:
        return [Place(on.gpu.uuid)]
    return [_mig(mig) for mig in on.migs if mig.mig_index == int(match[2])]


def _by_node(match: t.Match[str], on: Devices) -> t.List[Place]:
    if int(match[1]) != on.gpu.minor:
        return []
    return [Place(on.gpu.uuid, None if match[2] is None else int(match[2]))]


def _by_dra(match: t.Match[str], on: Devices) -> t.List[Place]:
    """Return the place by the minor, of the whole GPU where it is a share of it.

    NVIDIA's drivers before 25.8 took the index, and either is spared.
    """
    if int(match[1]) not in {on.gpu.minor, on.gpu.minor if match.re is OUR_DRA else on.gpu.index}:
        return []
    if match[2] is None:
        return [Place(on.gpu.uuid)]
    at = (int(match[2]), int(match[3]))
    return [
        Place(on.gpu.uuid, instance.id)
        for instance in on.instances
        if (instance.profile_id, instance.start) == at
    ]


PATTERNS = ((INDEX, _indexed), (NODE, _by_node), (DRA, _by_dra))
OURS = ((OUR_DRA, _by_dra),)


def _mig(mig: MigDevice) -> Place:
    return Place(mig.gpu_uuid, mig.gi_id, mig.ci_id)


def holders(allocations: t.Iterable[Allocation], node: t.Sequence[Devices]) -> Holders:
    """Return who has something of each GPU, by its UUID; shares of one device count once."""
    holders_by_gpu: t.Dict[str, t.Dict[Holder, None]] = {device.gpu.uuid: {} for device in node}
    for allocation in allocations:
        for place in places(allocation, node):
            holders_by_gpu[place.gpu][Holder(str(allocation), place.gi, place.ci)] = None
    return {uuid: tuple(those) for uuid, those in holders_by_gpu.items()}


def parse(text: str) -> t.Tuple[Allocation, ...]:
    """Read the answer of ``gpu-plugin pods --json``. NodeError: it is none, or of another version."""
    try:
        rows = json_data.loads(text)
        if rows["version"] != VERSION:
            raise ValueError(f"version {rows['version']}")
        names = [field.name for field in dataclasses.fields(Allocation)]
        rows = [[_text(allocation[name]) for name in names] for allocation in rows["allocations"]]
        return tuple(Allocation(*row) for row in rows)
    except (ValueError, LookupError, TypeError) as error:
        raise NodeError("the answer of gpu-plugin pods can't be read", cause=repr(error)) from error


def checkpoint(text: str) -> t.Tuple[Allocation, ...]:
    """Read the kubelet's own checkpoint of device plugins, in which the pods' UIDs stand for their names.

    NodeError: it is not of a form that is known.
    """
    try:
        return tuple(
            Allocation(
                namespace="",
                pod=_text(entry["PodUID"]),
                container=_text(entry["ContainerName"]),
                resource=_text(entry["ResourceName"]),
                device=device,
            )
            for entry in json_data.loads(text)["Data"]["PodDeviceEntries"] or ()
            for device in _ids(entry["DeviceIDs"])
        )
    except (ValueError, LookupError, TypeError) as error:
        raise NodeError("the kubelet's checkpoint can't be read", cause=repr(error)) from error


def claims(
    text: t.Optional[str], reported: t.Iterable[Allocation] = ()
) -> t.Tuple[Allocation, ...]:
    """Read what claims have from the checkpoint of our DRA driver, but for what is told of their pods.

    NodeError: the checkpoint is damaged.
    """
    known = {
        (allocation.namespace, allocation.resource, allocation.device) for allocation in reported
    }
    pairs = ((held, device) for held in load(text).values() for device in held.devices)
    allocations = (
        Allocation(held.namespace, held.name, "", DRIVER, allocation.device)
        for held, allocation in pairs
    )
    return tuple(
        allocation
        for allocation in allocations
        if (allocation.namespace, allocation.resource, allocation.device) not in known
    )


def _ids(ids: t.Any) -> t.List[str]:
    """Return the ids: by NUMA node since Kubernetes 1.20, a list before."""
    parts = ids.values() if isinstance(ids, dict) else [ids]
    return [_text(identifier) for part in parts for identifier in (part or ())]


def _text(value: t.Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
