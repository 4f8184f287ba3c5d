# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVML through pynvml: the one place that imports it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import typing as t

from .._core.errors import InputError
from .._core.gpu import (
    FUNCTION_NOT_FOUND,
    LIBRARY_NOT_FOUND,
    NOT_FOUND,
    NOT_SUPPORTED,
    ComputeInstance,
    GiProfile,
    Gpu,
    GpuInstance,
    MigDevice,
    NvmlError,
    Process,
)
from .._core.mig.profile import canonical, name_from_sizes
from .._core.text.printable import printable

try:
    import pynvml
except ImportError:  # where the library is missing, open_nvml says so
    pynvml = None

INVALID_ARGUMENT, VERSION_MISMATCH = 2, 25
PROFILES = 32  # newer drivers have more profiles than pynvml knows of
ROOM = 16  # more than any GPU's instances; some report too small a count
F = t.TypeVar("F", bound=t.Callable[..., t.Any])


def doing(what: str) -> t.Callable[[F], F]:
    """Turn pynvml's errors into ours."""

    def wrap(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: t.Any, **kwargs: t.Any) -> t.Any:
            try:
                return function(*args, **kwargs)
            except pynvml.NVMLError as error:
                raise NvmlError(error.value, what) from error

        return t.cast(F, wrapped)

    return wrap


@contextlib.contextmanager
def open_nvml(library: str = "") -> t.Iterator[RealNvml]:
    """Initialise NVML for the time of a with statement.

    ``library`` is a path that is loaded first, so that pynvml finds that one.
    """
    if pynvml is None:
        raise NvmlError(LIBRARY_NOT_FOUND, "importing pynvml (nvidia-ml-py)")
    if library:
        with contextlib.suppress(OSError):
            ctypes.CDLL(library)
    doing("starting NVML")(pynvml.nvmlInit)()
    try:
        yield RealNvml()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def text(value: t.Any) -> str:
    """Return NVML's text, which older bindings give as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _model(gpu: Gpu) -> t.Tuple[t.Any, ...]:
    """Return what GPUs have in common whose MIG profiles are the same."""
    return (gpu.name, gpu.pci_device_id, gpu.pci_subsystem_id, gpu.memory_total)


class RealNvml:
    """The node's NVML. Implements the Nvml protocol."""

    def __init__(self) -> None:
        self._profiles: t.Dict[t.Any, t.List[GiProfile]] = {}
        self._ci_profiles: t.Dict[t.Any, t.List[t.Tuple[int, int]]] = {}
        self._handles: t.Dict[str, t.Any] = {}
        self._facts: t.Dict[t.Tuple[int, str], t.Dict[str, t.Any]] = {}

    @doing("reading the driver's version")
    def driver_version(self) -> str:
        return text(pynvml.nvmlSystemGetDriverVersion())

    @doing("reading the CUDA version")
    def cuda_version(self) -> str:
        version = pynvml.nvmlSystemGetCudaDriverVersion()
        return f"{version // 1000}.{version % 1000 // 10}"

    @doing("counting GPUs")
    def gpus(self) -> t.Tuple[t.List[Gpu], t.List[NvmlError]]:
        found, broken = [], []
        self._handles.clear()  # a GPU that was taken away makes others' handles invalid
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                found.append(self._gpu(index))
            except pynvml.NVMLError as error:
                broken.append(NvmlError(error.value, f"reading GPU {index}", gpu_index=index))
        return found, broken

    def _gpu(self, index: int) -> Gpu:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = text(pynvml.nvmlDeviceGetUUID(handle))
        self._handles[uuid] = handle
        try:
            current, pending = pynvml.nvmlDeviceGetMigMode(handle)
            capable = True
        except pynvml.NVMLError as error:
            if error.value not in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                raise
            current, pending, capable = 0, 0, False
        if (index, uuid) not in self._facts:
            self._facts[index, uuid] = self._read_facts(handle)
        return Gpu(
            index=index,
            uuid=uuid,
            memory_total=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
            mig_capable=capable,
            mig_current=bool(current),
            mig_pending=bool(pending),
            **self._facts[index, uuid],
        )

    @staticmethod
    def _read_facts(handle: t.Any) -> t.Dict[str, t.Any]:
        """Return what stays the same for a GPU while NVML is open."""
        pci = pynvml.nvmlDeviceGetPciInfo(handle)
        return {
            "name": text(pynvml.nvmlDeviceGetName(handle)),
            "pci_bus_id": text(pci.busId).lower()[-12:],
            "minor": pynvml.nvmlDeviceGetMinorNumber(handle),
            "compute_capability": tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
            "pci_device_id": pci.pciDeviceId >> 16,
            "pci_subsystem_id": pci.pciSubSystemId,
        }

    def handle(self, gpu: Gpu) -> t.Any:
        """Return NVML's handle of a GPU."""
        return self._handles.get(gpu.uuid) or pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)

    @doing("listing MIG devices")
    def mig_devices(self, gpu: Gpu) -> t.List[MigDevice]:
        if not gpu.mig_current:
            return []
        handle, found = self.handle(gpu), []
        profiles = {one.id: one for one in self.gi_profiles(gpu)}
        instances = {one.id: one for one in self.gpu_instances(gpu)}
        for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
                found.append(self._mig_device(gpu, index, device, profiles, instances))
            except pynvml.NVMLError as error:
                if error.value != NOT_FOUND:  # indices have holes
                    raise
            except KeyError:  # made or destroyed between one question and the next
                continue
        return found

    @staticmethod
    def _mig_device(
        gpu: Gpu,
        index: int,
        device: t.Any,
        profiles: t.Mapping[int, GiProfile],
        instances: t.Mapping[int, GpuInstance],
    ) -> MigDevice:
        gi_id = pynvml.nvmlDeviceGetGpuInstanceId(device)
        ci_id = pynvml.nvmlDeviceGetComputeInstanceId(device)
        profile = profiles[instances[gi_id].profile_id]
        slices = {ci.id: ci.slices for ci in instances[gi_id].cis}[ci_id]
        return MigDevice(
            uuid=text(pynvml.nvmlDeviceGetUUID(device)),
            gpu_uuid=gpu.uuid,
            gpu_index=gpu.index,
            mig_index=index,
            gi_id=gi_id,
            ci_id=ci_id,
            profile=profile.name if slices == profile.slices else f"{slices}c.{profile.name}",
            memory_total=pynvml.nvmlDeviceGetMemoryInfo(device).total,
        )

    @doing("reading MIG profiles")
    def gi_profiles(self, gpu: Gpu) -> t.List[GiProfile]:
        if not gpu.mig_capable:
            return []
        found = self._profiles.get(_model(gpu), [])
        if not found:  # drivers of branch 535 and older tell them only while the mode is on
            handle = self.handle(gpu)
            asked = (self._profile(handle, gpu, number) for number in range(PROFILES))
            found = [one for one in asked if one is not None]
            self._profiles[_model(gpu)] = found
        return found

    def _profile(self, handle: t.Any, gpu: Gpu, number: int) -> t.Optional[GiProfile]:
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=2)
            name = self._profile_name(gpu, number, info, text(info.name))
        except pynvml.NVMLError as error:
            if error.value in (NOT_SUPPORTED, INVALID_ARGUMENT):
                return None
            if error.value not in (FUNCTION_NOT_FOUND, VERSION_MISMATCH):
                raise
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=1)
            name = self._profile_name(gpu, number, info, "")
        count = ctypes.c_uint()
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
            handle, info.id, None, ctypes.byref(count)
        )
        places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
            handle, info.id, places, ctypes.byref(count)
        )
        return GiProfile(
            id=info.id,
            enum=number,
            name=name,
            slices=info.sliceCount,
            max_count=info.instanceCount,
            memory_mb=info.memorySizeMB,
            placements=tuple((places[i].start, places[i].size) for i in range(count.value)),
        )

    @staticmethod
    def _profile_name(gpu: Gpu, number: int, info: t.Any, told: str) -> str:
        try:
            return canonical(told)
        except InputError:
            return name_from_sizes(info.sliceCount, info.memorySizeMB, gpu.memory_total, number)

    @doing("listing GPU instances")
    def gpu_instances(self, gpu: Gpu) -> t.List[GpuInstance]:
        if not gpu.mig_current:
            return []
        handle, found = self.handle(gpu), []
        for profile in self.gi_profiles(gpu):
            for gi in self._list(pynvml.nvmlDeviceGetGpuInstances, handle, profile.id):
                info = pynvml.nvmlGpuInstanceGetInfo(gi)
                found.append(
                    GpuInstance(
                        info.id,
                        info.profileId,
                        info.placement.start,
                        info.placement.size,
                        tuple(self._compute_instances(gpu, gi, info.profileId)),
                    )
                )
        return sorted(found, key=lambda one: one.start)

    def _compute_instances(
        self, gpu: Gpu, gi: t.Any, gi_profile: int
    ) -> t.Iterator[ComputeInstance]:
        seen = set()
        key = (_model(gpu), gi_profile)
        if key not in self._ci_profiles:  # instances of one profile can all be divided alike
            numbers = range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
            asked = [self._ci_profile(gi, number) for number in numbers]
            self._ci_profiles[key] = [(one.id, one.sliceCount) for one in asked if one is not None]
        for profile_id, slices in self._ci_profiles[key]:
            for ci in self._list(pynvml.nvmlGpuInstanceGetComputeInstances, gi, profile_id):
                info = pynvml.nvmlComputeInstanceGetInfo(ci)
                if info.id not in seen:
                    seen.add(info.id)
                    yield ComputeInstance(info.id, slices, info.placement.start)

    @staticmethod
    def _ci_profile(gi: t.Any, number: int) -> t.Any:
        try:
            return pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, number, 0, version=1)
        except pynvml.NVMLError as error:
            if error.value in (NOT_SUPPORTED, INVALID_ARGUMENT):
                return None
            raise

    @staticmethod
    def _list(function: t.Any, parent: t.Any, profile_id: int) -> t.List[t.Any]:
        """Return handles that stay valid: an element of the array is only a view of it."""
        kind = (
            pynvml.c_nvmlGpuInstance_t
            if function is pynvml.nvmlDeviceGetGpuInstances
            else pynvml.c_nvmlComputeInstance_t
        )
        array, count = (kind * ROOM)(), ctypes.c_uint()
        function(parent, profile_id, array, ctypes.byref(count))
        return [
            ctypes.cast(ctypes.cast(array[i], ctypes.c_void_p), kind) for i in range(count.value)
        ]

    @doing("listing processes")
    def processes(self, gpu: Gpu) -> t.List[Process]:
        handle, found = self.handle(gpu), {}
        devices = [handle]
        if gpu.mig_current:
            devices += [
                pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, one.mig_index)
                for one in self.mig_devices(gpu)
            ]
        for device in devices:
            for kind in (
                pynvml.nvmlDeviceGetComputeRunningProcesses,
                pynvml.nvmlDeviceGetGraphicsRunningProcesses,
            ):
                for one in self._running(kind, device):
                    gi, ci = (
                        None if n in (None, 0xFFFFFFFF) else n
                        for n in (one.gpuInstanceId, one.computeInstanceId)
                    )
                    found[one.pid, gi, ci] = Process(one.pid, self._name(one.pid), gpu.uuid, gi, ci)
        return sorted(found.values(), key=lambda one: one.pid)

    @staticmethod
    def _running(kind: t.Any, device: t.Any) -> t.List[t.Any]:
        try:
            return list(kind(device))
        except pynvml.NVMLError as error:
            if error.value == NOT_SUPPORTED:
                return []
            raise

    @staticmethod
    def _name(pid: int) -> str:
        try:
            return printable(text(pynvml.nvmlSystemGetProcessName(pid)))
        except UnicodeDecodeError as error:
            return printable(error.object.decode(errors="replace"))
        except pynvml.NVMLError:
            return ""

    @doing("setting MIG mode")
    def set_mig_mode(self, gpu: Gpu, on: bool) -> int:
        return int(pynvml.nvmlDeviceSetMigMode(self.handle(gpu), int(on)))

    @doing("creating a GPU instance")
    def create_instance(self, gpu: Gpu, profile: GiProfile, start: int) -> int:
        size = next(size for at, size in profile.placements if at == start)
        place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
        gi = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(
            self.handle(gpu), profile.id, ctypes.byref(place)
        )
        return int(pynvml.nvmlGpuInstanceGetInfo(gi).id)

    @doing("reading the places of compute instances")
    def ci_places(self, gpu: Gpu, gi_id: int) -> t.Dict[int, t.Tuple[int, ...]]:
        gi = pynvml.nvmlDeviceGetGpuInstanceById(self.handle(gpu), gi_id)
        found: t.Dict[int, t.Tuple[int, ...]] = {}
        for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            profile = self._ci_profile(gi, number)
            if profile is not None and profile.sliceCount not in found:
                found[profile.sliceCount] = self._ci_starts(gi, profile.id)
        return found

    @staticmethod
    def _ci_starts(gi: t.Any, profile_id: int) -> t.Tuple[int, ...]:
        ask = pynvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements
        count = ctypes.c_uint()
        ask(gi, profile_id, None, ctypes.byref(count))
        places = (pynvml.c_nvmlComputeInstancePlacement_t * count.value)()
        ask(gi, profile_id, places, ctypes.byref(count))
        return tuple(places[at].start for at in range(count.value))

    @doing("creating a compute instance")
    def create_compute_instance(self, gpu: Gpu, gi_id: int, slices: int, start: int) -> None:
        gi = pynvml.nvmlDeviceGetGpuInstanceById(self.handle(gpu), gi_id)
        for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            profile = self._ci_profile(gi, number)
            if profile is not None and profile.sliceCount == slices:
                place = pynvml.c_nvmlComputeInstancePlacement_t(start, slices)
                pynvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(
                    gi, profile.id, ctypes.byref(place)
                )
                return
        raise NvmlError(NOT_SUPPORTED, f"looking for a compute instance of {slices} slices")

    @doing("destroying a GPU instance")
    def destroy_instance(self, gpu: Gpu, gi_id: int) -> None:
        gi = pynvml.nvmlDeviceGetGpuInstanceById(self.handle(gpu), gi_id)
        profile_id = pynvml.nvmlGpuInstanceGetInfo(gi).profileId
        for one in self._compute_instances(gpu, gi, profile_id):
            pynvml.nvmlComputeInstanceDestroy(
                pynvml.nvmlGpuInstanceGetComputeInstanceById(gi, one.id)
            )
        pynvml.nvmlGpuInstanceDestroy(gi)

    @doing("destroying a compute instance")
    def destroy_compute_instance(self, gpu: Gpu, gi_id: int, ci_id: int) -> None:
        gi = pynvml.nvmlDeviceGetGpuInstanceById(self.handle(gpu), gi_id)
        pynvml.nvmlComputeInstanceDestroy(pynvml.nvmlGpuInstanceGetComputeInstanceById(gi, ci_id))
