# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG on demand: the instance of a claim is made at exactly its place, and exactly that one is destroyed again.

All of it is done under the lock that gpu.node.mig and the services of MIG layouts hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..._shared._base.dra.checkpoint import Device, Instance, PreparedClaim
from ..._shared._base.errors import NodeError
from ..._shared._base.gpu import (
    CAPS_FOLDER,
    INSUFFICIENT_RESOURCES,
    MIG_MINORS,
    GiProfile,
    Gpu,
    GpuInstance,
    MigDevice,
    NvmlError,
    mig_nodes,
    parse_minors,
)
from ..._shared._base.mig_profile import parse
from ..._shared._base.services.mig import LOCK
from ..._shared._machine.devices import parse_majors
from ..._shared._machine.host import Host
from ..._shared._machine.nvml.real import Nvml, open_nvml
from ...tools import bounded
from ...tools.files import inode
from .cdi import Nodes

LOCK_SECONDS: Final = 25.0  # the kubelet waits for 45
AGAIN: Final = "the kubelet tries again"
CAPS_MAJOR: Final = "nvidia-caps"
GRACE: Final = 30.0  # seconds in which a look may still show an instance that went with its claim
Place = tuple[str, int, int]  # the GPU's UUID, and the profile's id and first slice
Note = Callable[[Instance], None]


class Instances:
    """``root`` is where the host's / is seen; ``lock`` is the file that others lock too."""

    def __init__(self, root: Path, lock: Path = Path(LOCK)) -> None:
        self._root, self._lock = root, lock

    def era(self) -> str:
        """Return an identifier of this boot and load of the driver, neither of which an instance outlives."""
        boot = bounded.peek(Path("/proc/sys/kernel/random/boot_id")).strip()
        paths = ("sys/module/nvidia", "proc/driver/nvidia/version")
        return "/".join([boot, *(str(inode(self._root / path) or "-") for path in paths)])

    def make(self, device: Device, note: Note) -> Instance:
        """Return the instance of a device; it is made if it does not exist. One that existed before is used, and stays.

        ``note`` is called before something is made, and again once it is.

        Raises:
            NodeError: if it can't be made, or is in parts.
        """
        instance = _instance(device)
        with Host().lock(str(self._lock), timeout=LOCK_SECONDS), open_nvml() as nvml:
            gpu = _find(nvml, device)
            if not gpu.mig_current:
                raise NodeError(
                    f"{device.device} can't be looked after",
                    cause=f"GPU {gpu.index} is not in MIG mode",
                )
            profile = _profile(nvml, gpu, device)
            there = _at(nvml, gpu, instance)
            if there is None and device.admin:
                raise NodeError(
                    f"{device.device} does not exist",
                    cause="a claim with adminAccess gets only MIG devices that exist",
                    hint="select MIG devices that have a uuid in the request",
                )
            known = instance.era == self.era()
            if there is None or not known:
                # What stands here and was not made in this load of the driver is somebody else's.
                instance = replace(instance, made=there is None, era=self.era(), gi=None, uuid="")
                note(instance)
            gi = _create(nvml, gpu, profile, instance.start) if there is None else there.id
            _fill(nvml, gpu, gi, profile, made=instance.made)
            mig_device = _device(nvml, gpu, gi, device)
            instance = replace(instance, gi=gi, uuid=mig_device.uuid)
            note(instance)
            return instance

    def destroy(self, device: Device) -> None:
        """Destroy what was made for a device, if that is still there, and nothing else.

        Raises:
            NodeError: if it is in use, or the driver can't destroy it.
        """
        instance = _instance(device)
        if not instance.made or instance.era != self.era():
            return
        with Host().lock(str(self._lock), timeout=LOCK_SECONDS), open_nvml() as nvml:
            gpu = _gpu_of(nvml, device)
            if gpu is None or not gpu.mig_current:
                return  # its instances are gone
            there = _at(nvml, gpu, instance)
            if there is None or (instance.gi is not None and there.id != instance.gi):
                return
            uuids = [mig.uuid for mig in nvml.mig_devices(gpu) if mig.gi_id == there.id]
            if instance.uuid and uuids and instance.uuid not in uuids:
                return
            users = [str(process) for process in nvml.processes(gpu) if process.gi_id == there.id]
            if users:
                raise NodeError(
                    f"{device.device} is still in use", cause=", ".join(users[:5]), hint=AGAIN
                )
            nvml.destroy_instance(gpu, there.id)

    def stands(self, device: Device) -> bool:
        """Return whether the instance of a device exists as it was made or found.

        Raises:
            NodeError: if the driver does not say.
        """
        instance = _instance(device)
        if instance.era != self.era():
            return False
        with open_nvml() as nvml:
            gpu = _find(nvml, device)
            migs = nvml.mig_devices(gpu) if gpu.mig_current else []
            return any((mig.uuid, mig.gi_id) == (instance.uuid, instance.gi) for mig in migs)

    def nodes(self, device: Device) -> Nodes:
        """Return the device nodes of an instance that is there.

        Raises:
            NodeError: if the driver does not list it.
        """
        with open_nvml() as nvml:
            gpu = _find(nvml, device)
            mig = _device(nvml, gpu, _instance(device).gi, device)
        majors = parse_majors(bounded.peek(self._root / "proc/devices"), CAPS_MAJOR, exact=True)
        nodes = []
        for path in mig_nodes(gpu, mig, parse_minors(bounded.peek(self._root / MIG_MINORS[1:]))):
            if path.startswith(CAPS_FOLDER) and not (self._root / path[1:]).exists():
                # Nobody has made it yet, so the runtime has to, by its numbers.
                nodes.append((path, next(iter(majors), 0), int(path.rpartition("nvidia-cap")[2])))
            else:
                nodes.append((path, 0, 0))
        return nodes


class Made:
    """Which instances claims have, or had a moment ago, so that no slice changes when one is prepared or given back."""

    def __init__(self) -> None:
        self._seen: dict[Place, float] = {}  # when a claim last had them

    def of(self, claims: Iterable[PreparedClaim]) -> frozenset[Place]:
        """Return them, given all claims as they are now."""
        moment = time.monotonic()
        self._seen |= {
            (device.gpu, device.instance.profile_id, device.instance.start): moment
            for held in claims
            for device in held.devices
            if device.instance and device.instance.made
        }
        self._seen = {place: at for place, at in self._seen.items() if moment - at <= GRACE}
        return frozenset(self._seen)


def _instance(device: Device) -> Instance:
    if device.instance is None:
        raise NodeError(f"{device.device} is no MIG device")
    return device.instance


def _gpu_of(nvml: Nvml, device: Device) -> Gpu | None:
    """Return the GPU of a device, None if it was removed; an error if it may be one that does not answer."""
    gpus, broken = nvml.gpus()
    result = next((gpu for gpu in gpus if gpu.uuid == device.gpu), None)
    if result is None and broken:
        raise broken[0]
    return result


def _find(nvml: Nvml, device: Device) -> Gpu:
    result = _gpu_of(nvml, device)
    if result is None:
        raise NodeError(f"GPU {device.gpu} is not there any more")
    return result


def _profile(nvml: Nvml, gpu: Gpu, device: Device) -> GiProfile:
    instance = _instance(device)
    for profile in nvml.gi_profiles(gpu):
        starts = [start for start, _size in profile.placements]
        if profile.id == instance.profile_id and instance.start in starts:
            return profile
    cause = f"GPU {gpu.index} has no profile {instance.profile_id} that can begin at slice {instance.start}"
    raise NodeError(f"{device.device} can't be made", cause=cause)


def _at(nvml: Nvml, gpu: Gpu, instance: Instance) -> GpuInstance | None:
    for gpu_instance in nvml.gpu_instances(gpu):
        if (gpu_instance.profile_id, gpu_instance.start) == (instance.profile_id, instance.start):
            return gpu_instance
    return None


def _create(nvml: Nvml, gpu: Gpu, profile: GiProfile, start: int) -> int:
    try:
        return nvml.create_instance(gpu, profile, start)
    except NvmlError as error:
        if error.code != INSUFFICIENT_RESOURCES:
            raise
        names = {existing.id: existing.name for existing in nvml.gi_profiles(gpu)}
        there = [
            f"{names.get(gpu_instance.profile_id)} at {gpu_instance.start}:{gpu_instance.size}"
            for gpu_instance in nvml.gpu_instances(gpu)
        ]
        raise NodeError(
            f"{profile.name} can't be made at slice {start} of GPU {gpu.index}",
            cause=f"it has {', '.join(there) or 'no room'}",
            hint=AGAIN,
        ) from error


def _fill(nvml: Nvml, gpu: Gpu, gi: int, profile: GiProfile, *, made: bool) -> None:
    """Make one compute instance of all of the GPU instance, an error if it is divided already."""
    cis = next(instance.cis for instance in nvml.gpu_instances(gpu) if instance.id == gi)
    slices = parse(profile.name).g
    if not cis and made:
        nvml.create_compute_instance(gpu, gi, slices, 0)
    elif [ci.slices for ci in cis] != [slices]:
        raise NodeError(
            f"GPU instance {gi} of GPU {gpu.index} can't be given as a whole",
            cause=f"it has {len(cis)} compute instances that somebody else made",
            hint="destroy it, or give it a compute instance that takes all of it",
        )


def _device(nvml: Nvml, gpu: Gpu, gi: int | None, device: Device) -> MigDevice:
    for mig_device in nvml.mig_devices(gpu):
        if mig_device.gi_id == gi:
            return mig_device
    cause = "the driver lists no MIG device for it"
    raise NodeError(f"{device.device} is not there", cause=cause, hint=AGAIN)
