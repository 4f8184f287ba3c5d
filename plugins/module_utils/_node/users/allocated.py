# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices that the kubelet has allocated to pods, and their GPUs and MIG instances."""

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
VERSION = 1  # of the output of "gpu-plugin pods --json"
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
# In place of a resource: a running container has the device, and the kubelet does not report it.
UNREPORTED = "unreported"
# NVIDIA's network operator has resources of nvidia.com that are no GPUs.
GPU_RESOURCE = re.compile(
    rf"nvidia\.com/(gpu|mig-).*|(.*[./])?gpu\.nvidia\.com(/.*)?|gpu\.node(/.*)?|{UNREPORTED}"
)


@dataclasses.dataclass(frozen=True)
class Allocation:
    """A device of a container.

    Attributes:
        pod: The pod's name, or, without a container, that of the claim that has the device.
        container: Its name; its id if the kubelet does not report it.
        resource: That of the device plugin, such as nvidia.com/gpu, the name of the DRA driver, or UNREPORTED if the
            kubelet does not report the device.
        device: The id of the device plugin or DRA driver; the name of the device node if it is not reported.
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
    """A GPU, or one of its GPU instances, or a compute instance of that; None for all of them."""

    gpu: str
    gi: t.Optional[int] = None
    ci: t.Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Holder:
    """A description of who has a device; the ids of instances are None on a whole GPU."""

    description: str
    gi_id: t.Optional[int] = None
    ci_id: t.Optional[int] = None

    def __str__(self) -> str:
        return self.description


Holders = t.Dict[str, t.Tuple[Holder, ...]]  # by the UUID of a GPU


class Devices(t.NamedTuple):
    """A GPU with the instances and MIG devices of it that can be allocated."""

    gpu: Gpu
    instances: t.Tuple[GpuInstance, ...] = ()
    migs: t.Tuple[MigDevice, ...] = ()


def is_gpu(allocation: Allocation) -> bool:
    """Return whether an allocation is of a GPU or a part of one, by any device plugin or driver."""
    return bool(GPU_RESOURCE.fullmatch(allocation.resource) or NAMED.search(allocation.device))


def names(allocations: t.Iterable[Allocation]) -> t.Tuple[str, ...]:
    """Return descriptions of who has a GPU, or a part of one, once for each device."""
    return tuple(dict.fromkeys(str(allocation) for allocation in allocations if is_gpu(allocation)))


def places(allocation: Allocation, node: t.Sequence[Devices]) -> t.List[Place]:
    """Return the places of the device in an allocation, none if it is gone or no GPU.

    A device with an id that can't be read is on every GPU, so that nothing is taken from its container.
    """
    if not is_gpu(allocation):
        return []
    device = allocation.device
    old, named = OLD_MIG.search(device), NAMED.search(device)
    if old:
        has_gpu = any(devices.gpu.uuid == old[1] for devices in node)
        return [Place(old[1], int(old[2]), int(old[3]))] if has_gpu else []
    if named:
        wholes = [Place(named[0]) for devices in node if devices.gpu.uuid == named[0]]
        migs = (mig for devices in node for mig in devices.migs)
        return wholes or [_mig(mig) for mig in migs if mig.uuid == named[0]]
    for pattern, read in OURS if allocation.resource.startswith(DRIVER) else PATTERNS:
        match = pattern.fullmatch(device)
        if match:
            return [place for devices in node for place in read(match, devices)]
    if ADDRESS.fullmatch(device.lower()):
        gpus = (devices.gpu for devices in node)
        tail = device.lower()[-7:]
        return [Place(gpu.uuid) for gpu in gpus if gpu.pci_bus_id.lower()[-7:] == tail]
    return [
        Place(devices.gpu.uuid, gi)
        for devices in node
        for gi in (None, *(instance.id for instance in devices.instances))
    ]


def _by_index(match: t.Match[str], devices: Devices) -> t.List[Place]:
    if int(match[1]) != devices.gpu.index:
        return []
    if match[2] is None:
        return [Place(devices.gpu.uuid)]
    return [_mig(mig) for mig in devices.migs if mig.mig_index == int(match[2])]


def _by_node(match: t.Match[str], devices: Devices) -> t.List[Place]:
    if int(match[1]) != devices.gpu.minor:
        return []
    return [Place(devices.gpu.uuid, None if match[2] is None else int(match[2]))]


def _by_dra(match: t.Match[str], devices: Devices) -> t.List[Place]:
    """Return the place of a GPU with this minor, or index; for a share, that of the whole GPU.

    NVIDIA's drivers before 25.8 use the index, so both GPUs count.
    """
    gpu = devices.gpu
    if int(match[1]) not in {gpu.minor, gpu.minor if match.re is OUR_DRA else gpu.index}:
        return []
    if match[2] is None:
        return [Place(gpu.uuid)]
    placement = (int(match[2]), int(match[3]))
    return [
        Place(gpu.uuid, instance.id)
        for instance in devices.instances
        if (instance.profile_id, instance.start) == placement
    ]


PATTERNS = ((INDEX, _by_index), (NODE, _by_node), (DRA, _by_dra))
OURS = ((OUR_DRA, _by_dra),)


def _mig(mig: MigDevice) -> Place:
    return Place(mig.gpu_uuid, mig.gi_id, mig.ci_id)


def holders(allocations: t.Iterable[Allocation], node: t.Sequence[Devices]) -> Holders:
    """Return the holders of each GPU or parts of it, by its UUID; shares of one device count once."""
    by_gpu: t.Dict[str, t.Dict[Holder, None]] = {devices.gpu.uuid: {} for devices in node}
    for allocation in allocations:
        for place in places(allocation, node):
            by_gpu[place.gpu][Holder(str(allocation), place.gi, place.ci)] = None
    return {uuid: tuple(gpu_holders) for uuid, gpu_holders in by_gpu.items()}


def parse(text: str) -> t.Tuple[Allocation, ...]:
    """Read the output of ``gpu-plugin pods --json``.

    Raises:
        NodeError: if it is invalid, or of another version.
    """
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
    """Read the kubelet's own checkpoint of device plugins, which has the pods' UIDs instead of their names.

    Raises:
        NodeError: if it is not of a known form.
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
    """Read the devices of claims from the checkpoint of our DRA driver, without those that are reported of pods.

    Raises:
        NodeError: if the checkpoint is damaged.
    """
    known = {
        (allocation.namespace, allocation.resource, allocation.device) for allocation in reported
    }
    return tuple(
        Allocation(claim.namespace, claim.name, "", DRIVER, device.device)
        for claim in load(text).values()
        for device in claim.devices
        if (claim.namespace, DRIVER, device.device) not in known
    )


def _ids(ids: t.Any) -> t.List[str]:
    """Return the ids: by NUMA node since Kubernetes 1.20, a list before."""
    parts = ids.values() if isinstance(ids, dict) else [ids]
    return [_text(identifier) for part in parts for identifier in (part or ())]


def _text(value: t.Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
