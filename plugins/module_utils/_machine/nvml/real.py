# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVML through pynvml: the GPUs, and their MIG mode and instances."""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
import typing as t

from ..._base.gpu import (
    FUNCTION_NOT_FOUND,
    NO_BINDINGS,
    NOT_FOUND,
    NOT_SUPPORTED,
    UNKNOWN_ERROR,
    ComputeInstance,
    GiProfile,
    Gpu,
    GpuDevices,
    GpuInstance,
    Inventory,
    MigDevice,
    NvmlError,
    Process,
)
from ..._base.text.shown import cut
from . import handles
from .calls import INVALID_ARGUMENT, ask_text, doing, listed, or_none, pynvml, text

UUID = re.compile("GPU-[0-9A-Za-z-]+")
WITHOUT_BINDINGS = (
    "install the virtual environment: the role gpu.node.device_plugin with tasks_from: environment"
)
MOST_GPUS, MOST_MIG_DEVICES = 1024, 64  # a driver that says that there are more is not believed
GONE = (NOT_FOUND, INVALID_ARGUMENT)  # what is said of an instance that was destroyed meanwhile


@contextlib.contextmanager
def open_nvml(library: str = "") -> t.Iterator[Nvml]:
    """Initialise NVML for a with statement; the ``library`` is loaded first, so that pynvml finds it."""
    if pynvml is None:
        error = NvmlError(NO_BINDINGS, f"importing pynvml with {sys.executable}")
        error.hint = WITHOUT_BINDINGS
        raise error
    if library:
        with contextlib.suppress(OSError):
            ctypes.CDLL(library)
    doing("starting NVML")(pynvml.nvmlInit)()
    try:
        yield Nvml()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _model(gpu: Gpu) -> t.Tuple[t.Any, ...]:
    """Return the key of GPUs that have the same MIG profiles."""
    return (gpu.name, gpu.pci_device_id, gpu.pci_subsystem_id, gpu.memory_total)


class Nvml:
    """The node's NVML. Every method may raise NvmlError."""

    def __init__(self) -> None:
        self._profiles: t.Dict[t.Any, t.List[GiProfile]] = {}
        self._ci_profiles: t.Dict[t.Any, t.Dict[int, int]] = {}
        self._handles: t.Dict[str, t.Any] = {}
        self._facts: t.Dict[t.Tuple[int, str], t.Dict[str, t.Any]] = {}
        self.unnamed: t.Dict[str, t.Tuple[str, ...]] = {}
        self.layouts: t.Dict[str, t.Tuple[t.List[GiProfile], t.List[GpuInstance]]] = {}

    @contextlib.contextmanager
    def closed(self) -> t.Iterator[None]:
        """Let go of the driver for a with statement: NVML has each GPU open that it was asked for."""
        pynvml.nvmlShutdown()
        self._handles.clear()
        try:
            yield
        finally:
            doing("starting NVML")(pynvml.nvmlInit)()

    @doing("reading the driver's version")
    def driver_version(self) -> str:
        """Return the driver's version, such as 550.163.01."""
        return ask_text(pynvml.nvmlSystemGetDriverVersion)

    @doing("reading the CUDA version")
    def cuda_version(self) -> str:
        """Return the newest CUDA version that the driver serves, such as 12.4."""
        version = pynvml.nvmlSystemGetCudaDriverVersion()
        return f"{version // 1000}.{version % 1000 // 10}"

    @doing("counting GPUs")
    def count(self) -> int:
        """Return the number of GPUs, and forget the handles of the last look at them."""
        self._handles.clear()  # a GPU that was taken away makes others' handles invalid
        result = int(pynvml.nvmlDeviceGetCount())
        if result > MOST_GPUS:
            raise NvmlError(UNKNOWN_ERROR, f"counting GPUs: it says that there are {result}")
        return result

    def gpus(self) -> t.Tuple[t.List[Gpu], t.List[NvmlError]]:
        """Return the GPUs that answer, and an error for each that does not."""
        gpus, broken = [], []
        for index in range(self.count()):
            try:
                gpus.append(self.gpu(index))
            except NvmlError as error:
                broken.append(error)
        return gpus, broken

    def gpu(self, index: int) -> Gpu:
        """Return a GPU by its index."""
        try:
            return self._gpu(index)
        except pynvml.NVMLError as error:
            task = f"reading GPU {index}"
            raise NvmlError(error.value, task, gpu_index=index) from error

    def _gpu(self, index: int) -> Gpu:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = ask_text(pynvml.nvmlDeviceGetUUID, handle)
        if not UUID.fullmatch(uuid):
            task = f"reading the UUID of GPU {index}, which is given as {cut(uuid)!r}"
            raise NvmlError(UNKNOWN_ERROR, task, gpu_index=index)
        self._handles[uuid] = handle
        mode = or_none((NOT_SUPPORTED, FUNCTION_NOT_FOUND), pynvml.nvmlDeviceGetMigMode, handle)
        current, pending = mode or (0, 0)
        if not {current, pending} <= {0, 1}:
            task = f"reading the MIG mode of GPU {index}, which is given as {current} and {pending}"
            raise NvmlError(UNKNOWN_ERROR, task, gpu_index=index)
        if (index, uuid) not in self._facts:  # they stay the same while NVML is open
            pci = pynvml.nvmlDeviceGetPciInfo(handle)
            self._facts[index, uuid] = {
                "name": ask_text(pynvml.nvmlDeviceGetName, handle),
                "pci_bus_id": text(pci.busId).lower()[-12:],
                "minor": pynvml.nvmlDeviceGetMinorNumber(handle),
                "compute_capability": tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
                "pci_device_id": pci.pciDeviceId >> 16,
                "pci_subsystem_id": pci.pciSubSystemId,
            }
        return Gpu(
            index=index,
            uuid=uuid,
            memory_total=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
            mig_capable=mode is not None,
            mig_current=bool(current),
            mig_pending=bool(pending),
            **self._facts[index, uuid],
        )

    def handle(self, gpu: Gpu) -> t.Any:
        """Return NVML's handle of a GPU."""
        return self._handles.get(gpu.uuid) or pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)

    @doing("listing MIG devices")
    def mig_devices(self, gpu: Gpu) -> t.List[MigDevice]:
        """Return the MIG devices of a GPU. Those of no known profile are in ``unnamed``, by the GPU's UUID.

        What they were read by, profiles and GPU instances, is in ``layouts``.
        """
        result: t.List[MigDevice] = []
        for _attempt in range(2):  # some are made or destroyed between one question and the next
            result, unnamed = self._mig_devices(gpu) if gpu.mig_current else ([], [])
            self.unnamed[gpu.uuid] = tuple(unnamed)
            if not unnamed:
                break
        return result

    def _mig_devices(self, gpu: Gpu) -> t.Tuple[t.List[MigDevice], t.List[str]]:
        handle, devices, unnamed = self.handle(gpu), [], []
        profiles = {gi_profile.id: gi_profile for gi_profile in self.gi_profiles(gpu)}
        instances = {gpu_instance.id: gpu_instance for gpu_instance in self.gpu_instances(gpu)}
        self.layouts[gpu.uuid] = list(profiles.values()), list(instances.values())
        most = min(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle), MOST_MIG_DEVICES)
        ask = pynvml.nvmlDeviceGetMigDeviceHandleByIndex
        for index in range(most):
            device = or_none((NOT_FOUND,), ask, handle, index)  # indices have holes
            place = device and or_none(GONE, self._place, device)
            if not place:
                continue
            uuid, gi_id, ci_id, memory = place
            gi = instances.get(gi_id)
            profile = profiles.get(gi.profile_id) if gi else None
            slices = {profile.id: profile.slices for profile in gi.cis}.get(ci_id) if gi else None
            if profile is None or slices is None:
                unnamed.append(uuid)
                continue
            name = profile.name if slices == profile.slices else f"{slices}c.{profile.name}"
            at = (uuid, gpu.uuid, gpu.index, index, gi_id, ci_id)
            all_slices = max(profile.slices for profile in profiles.values())
            devices.append(MigDevice(*at, name, memory, (slices, all_slices)))
        return devices, unnamed

    @staticmethod
    def _place(device: t.Any) -> t.Tuple[str, int, int, int]:
        """Return a MIG device's UUID, GPU instance, compute instance and bytes of memory."""
        return (
            ask_text(pynvml.nvmlDeviceGetUUID, device),
            pynvml.nvmlDeviceGetGpuInstanceId(device),
            pynvml.nvmlDeviceGetComputeInstanceId(device),
            pynvml.nvmlDeviceGetMemoryInfo(device).total,
        )

    @doing("reading MIG profiles")
    def gi_profiles(self, gpu: Gpu) -> t.List[GiProfile]:
        """Return the profiles that a GPU offers."""
        if not gpu.mig_capable:
            return []
        result = self._profiles.get(_model(gpu), [])
        if not result:  # drivers of branch 535 and older tell them only while the mode is on
            result = handles.gi_profiles(self.handle(gpu), gpu)
            self._profiles[_model(gpu)] = result
        return result

    @doing("listing GPU instances")
    def gpu_instances(self, gpu: Gpu) -> t.List[GpuInstance]:
        """Return the GPU instances, with their compute instances."""
        if not gpu.mig_current:
            return []
        handle, instances = self.handle(gpu), []
        for profile in self.gi_profiles(gpu):
            for gi in handles.instances(handle, profile.id, compute=False):
                info = pynvml.nvmlGpuInstanceGetInfo(gi)
                start, size = info.placement.start, info.placement.size
                cis = tuple(self._compute_instances(gpu, gi, info.profileId))
                instances.append(GpuInstance(info.id, info.profileId, start, size, cis))
        return sorted(instances, key=lambda instance: instance.start)

    def _compute_instances(
        self, gpu: Gpu, gi: t.Any, gi_profile: int
    ) -> t.Iterator[ComputeInstance]:
        seen = set()
        key = (_model(gpu), gi_profile)
        if key not in self._ci_profiles:  # instances of one profile can all be divided alike
            self._ci_profiles[key] = handles.ci_profiles(gi)
        for profile_id, slices in self._ci_profiles[key].items():
            for ci in handles.instances(gi, profile_id, compute=True):
                info = pynvml.nvmlComputeInstanceGetInfo(ci)
                if info.id not in seen:
                    seen.add(info.id)
                    yield ComputeInstance(info.id, slices, info.placement.start)

    @doing("listing processes")
    def processes(self, gpu: Gpu) -> t.List[Process]:
        """Return the processes on a GPU and its instances."""
        handle = self.handle(gpu)
        parts = (
            pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, mig_device.mig_index)
            for mig_device in self.mig_devices(gpu)
        )
        return handles.processes(gpu, (handle, *parts))

    @doing("setting MIG mode")
    def set_mig_mode(self, gpu: Gpu, on: bool) -> int:
        """Set MIG mode and return the activation status: 0, or why it is only pending."""
        return int(pynvml.nvmlDeviceSetMigMode(self.handle(gpu), int(on)))

    @doing("creating a GPU instance")
    def create_instance(self, gpu: Gpu, profile: GiProfile, start: int) -> int:
        """Create a GPU instance without compute instances; return its id."""
        size = next(size for at, size in profile.placements if at == start)
        place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
        gi = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(
            self.handle(gpu), profile.id, ctypes.byref(place)
        )
        return int(pynvml.nvmlGpuInstanceGetInfo(gi).id)

    @doing("reading the places of compute instances")
    def ci_placements(self, gpu: Gpu, gi_id: int) -> t.Dict[int, t.Tuple[int, ...]]:
        """Return where compute instances may begin in a GPU instance, by their slices."""
        gi = pynvml.nvmlDeviceGetGpuInstanceById(self.handle(gpu), gi_id)
        result: t.Dict[int, t.Tuple[int, ...]] = {}
        for profile_id, slices in handles.ci_profiles(gi).items():
            if slices not in result:
                ask = pynvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements
                places = listed(ask, pynvml.c_nvmlComputeInstancePlacement_t, gi, profile_id)
                result[slices] = tuple(place.start for place in places)
        return result

    @doing("creating a compute instance")
    def create_compute_instance(self, gpu: Gpu, gi_id: int, slices: int, start: int) -> None:
        """Create a compute instance at a place in a GPU instance."""
        gi = pynvml.nvmlDeviceGetGpuInstanceById(self.handle(gpu), gi_id)
        for profile_id, size in handles.ci_profiles(gi).items():
            if size == slices:
                place = pynvml.c_nvmlComputeInstancePlacement_t(start, slices)
                pynvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(
                    gi, profile_id, ctypes.byref(place)
                )
                return
        raise NvmlError(NOT_SUPPORTED, f"looking for a compute instance of {slices} slices")

    @doing("destroying a GPU instance")
    def destroy_instance(self, gpu: Gpu, gi_id: int) -> None:
        """Destroy a GPU instance with its compute instances."""
        gi = pynvml.nvmlDeviceGetGpuInstanceById(self.handle(gpu), gi_id)
        profile_id = pynvml.nvmlGpuInstanceGetInfo(gi).profileId
        for compute_instance in self._compute_instances(gpu, gi, profile_id):
            pynvml.nvmlComputeInstanceDestroy(
                pynvml.nvmlGpuInstanceGetComputeInstanceById(gi, compute_instance.id)
            )
        pynvml.nvmlGpuInstanceDestroy(gi)

    @doing("destroying a compute instance")
    def destroy_compute_instance(self, gpu: Gpu, gi_id: int, ci_id: int) -> None:
        """Destroy one compute instance and leave its GPU instance."""
        gi = pynvml.nvmlDeviceGetGpuInstanceById(self.handle(gpu), gi_id)
        pynvml.nvmlComputeInstanceDestroy(pynvml.nvmlGpuInstanceGetComputeInstanceById(gi, ci_id))


def inventory(nvml: Nvml) -> Inventory:
    """Return the GPUs with their MIG devices, or the error if a GPU's MIG devices can't be read."""
    gpus, broken = nvml.gpus()
    devices = []
    for gpu in gpus:
        try:
            devices.append(GpuDevices(gpu, tuple(nvml.mig_devices(gpu))))
        except (NvmlError, LookupError) as error:  # LookupError: instances went while being read
            devices.append(GpuDevices(gpu, error=error))
    return Inventory(nvml.driver_version(), tuple(devices), tuple(broken))
