# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG: mode, profiles, instances and devices."""

from __future__ import annotations

import struct
from typing import Any

import pynvml

from .. import codes
from ..call import Call, api, fill
from ..catalog import GiProfile
from ..codes import NvError
from ..handles import GI, GPU, MIG, Handle, encode
from ..state import Gi, Gpu

MAX_ENUM = 0x11  # of branch 580


def capable(call: Call) -> Gpu:
    """Return a GPU that can be partitioned."""
    gpu = call.gpu(mig_too=False)
    if not gpu.product.mig_capable:
        raise NvError(codes.NOT_SUPPORTED)
    return gpu


def enabled(call: Call) -> Gpu:
    """Return a GPU that is in MIG mode."""
    gpu = capable(call)
    if not gpu.driver.mig_current:
        raise NvError(codes.NOT_SUPPORTED)
    return gpu


@api("nvmlDeviceGetMigMode")
def get_mode(call: Call) -> None:
    gpu = capable(call)
    call.put_number(1, gpu.driver.mig_current)
    call.put_number(2, gpu.driver.mig_pending)


@api("nvmlDeviceSetMigMode")
def set_mode(call: Call) -> None:
    call.need(2)
    gpu, mode, status = capable(call), call.below(1, 2), codes.SUCCESS
    call.root_only()
    if not mode and gpu.driver.gis:
        raise NvError(codes.IN_USE)
    gpu.driver.mig_pending = mode
    if gpu.product.mig_mode_in_inforom:
        gpu.board.mig_mode = mode
    if call.engine.on(gpu) and mode != gpu.driver.mig_current:
        status = codes.IN_USE
    elif call.engine.passthrough and mode != gpu.driver.mig_current:
        status = codes.RESET_REQUIRED
    else:
        if gpu.product.mig_mode_in_inforom and mode != gpu.driver.mig_current:
            call.engine.reset(gpu)  # "may [...] reset the device to activate the requested mode"
        gpu.driver.mig_current = mode
        gpu.driver.compute_mode = 0 if mode else gpu.driver.compute_mode  # as NVML documents
    call.engine.changed()
    call.put_number(2, status)


@api("nvmlDeviceIsMigDeviceHandle")
def is_mig(call: Call) -> None:
    call.put_number(1, int(call.is_mig()))


@api("nvmlDeviceGetMaxMigDeviceCount")
def max_devices(call: Call) -> None:
    gpu = call.gpu(mig_too=False)
    call.put_number(1, gpu.product.compute_slices if gpu.driver.mig_current else 0)


@api("nvmlDeviceGetMigDeviceHandleByIndex")
def by_index(call: Call) -> None:
    devices = call.mig_devices(capable(call))
    if call.u32(1) >= len(devices):
        raise NvError(codes.NOT_FOUND)
    gi, ci = devices[call.u32(1)]
    call.put_handle(2, Handle(MIG, call.gpu().index, gi.id, ci.id))


@api("nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
def parent(call: Call) -> None:
    call.put_handle(1, Handle(GPU, call.mig()[0].index))


@api("nvmlDeviceGetGpuInstanceId")
def gi_id(call: Call) -> None:
    call.put_number(1, call.mig()[1].id)


@api("nvmlDeviceGetComputeInstanceId")
def ci_id(call: Call) -> None:
    call.put_number(1, call.mig()[2].id)


# --- GPU instance profiles ---


def gi_info(profile: GiProfile) -> dict[str, Any]:
    """Return the fields that every version of the profile's struct has."""
    return {
        "id": profile.id,
        "isP2pSupported": 0,
        "sliceCount": profile.slices,
        "instanceCount": profile.max,
        "multiprocessorCount": profile.multiprocessors,
        "copyEngineCount": profile.copy_engines,
        "decoderCount": profile.decoders,
        "encoderCount": 0,
        "jpegCount": profile.jpegs,
        "ofaCount": profile.ofas,
        "memorySizeMB": profile.memory_mib,
    }


def gi_profile(call: Call, number: int, *, by: str) -> GiProfile:
    """Return a profile by its enum or its id."""
    gpu = capable(call)
    if call.engine.profiles_need_mig and not gpu.driver.mig_current:
        raise NvError(codes.NOT_SUPPORTED)
    for profile in gpu.product.profiles:
        if getattr(profile, by) == number:
            return profile
    known = by == "enum" and number < MAX_ENUM
    raise NvError(codes.NOT_SUPPORTED if known else codes.INVALID_ARGUMENT)


@api("nvmlDeviceGetGpuInstanceProfileInfo")
def gi_profile_info(call: Call) -> None:
    profile = gi_profile(call, call.u32(1), by="enum")
    call.put_struct(2, pynvml.c_nvmlGpuInstanceProfileInfo_t(**gi_info(profile)))


@api("nvmlDeviceGetGpuInstanceProfileInfoV")
def gi_profile_info_v(call: Call) -> None:
    profile = gi_profile(call, call.u32(1), by="enum")
    call.need(2)
    word = call.number_in(2)
    if word >> 24 not in (2, 3):
        raise NvError(codes.ARGUMENT_VERSION_MISMATCH)
    fields = {**gi_info(profile), "name": f"MIG {profile.name}".encode()}
    if word >> 24 == 3:
        fields.pop("isP2pSupported")  # version 3 has a word of capability bits in its place
    call.put_struct(2, fill(pynvml.c_nvmlGpuInstanceProfileInfo_v2_t, version=0, **fields))


@api("nvmlDeviceGetGpuInstancePossiblePlacements_v2", "nvmlDeviceGetGpuInstancePossiblePlacements")
def gi_placements(call: Call) -> None:
    call.root_only()
    profile = gi_profile(call, call.u32(1), by="id")
    items = [struct.pack("<II", at, profile.size) for at in profile.placements]
    call.put_list(3, 2, items, sizing_ok=True)


@api("nvmlDeviceGetGpuInstanceRemainingCapacity")
def gi_capacity(call: Call) -> None:
    call.root_only()
    gpu = capable(call)
    profile = gi_profile(call, call.u32(1), by="id")
    found = [Gi(one.id, one.profile, one.start, one.size) for one in gpu.driver.gis]
    count = 0
    while (at := free_placement(gpu, profile, found)) is not None:
        found.append(Gi(-1, profile.id, at, profile.size))
        count += 1
    call.put_number(2, count)


# --- GPU instances ---


def fits(gpu: Gpu, profile: GiProfile, start: int, gis: list[Gi]) -> bool:
    """Return whether an instance can stand at this place beside the others."""
    if any(start < one.start + one.size and one.start < start + profile.size for one in gis):
        return False
    if sum(one.profile == profile.id for one in gis) >= profile.max:
        return False
    used = sum(found.slices for one in gis if (found := gpu.product.profile(one.profile)))
    return used + profile.slices <= gpu.product.compute_slices


def free_placement(gpu: Gpu, profile: GiProfile, gis: list[Gi]) -> int | None:
    """Return the last place where an instance fits, or None."""
    return next((at for at in reversed(profile.placements) if fits(gpu, profile, at, gis)), None)


def new_gi_id(gpu: Gpu, profile: GiProfile, start: int) -> int:
    """Return the id that the driver would give: it follows from the size and the place."""
    if profile.slices == gpu.product.compute_slices:
        return 0
    if profile.size >= gpu.product.memory_slices // 2 and profile.slices > 1:
        return 1 + (0 if start else 1) if gpu.product.memory_slices == 8 else 1 + start // 2
    if profile.slices == 2:
        return 3 + start // 2
    return gpu.product.compute_slices + start


def create_gi(call: Call, profile: GiProfile, start: int | None, at: int) -> None:
    """Create an instance and store its handle."""
    gpu = enabled(call)
    call.need(at)
    call.root_only()
    if start is None:
        start = free_placement(gpu, profile, gpu.driver.gis)
    elif start not in profile.placements:
        raise NvError(codes.INVALID_ARGUMENT)
    if start is None or not fits(gpu, profile, start, gpu.driver.gis):
        raise NvError(codes.INSUFFICIENT_RESOURCES)
    gi = Gi(new_gi_id(gpu, profile, start), profile.id, start, profile.size)
    gpu.driver.gis.append(gi)
    call.engine.changed()
    call.put_handle(at, Handle(GI, gpu.index, gi.id))


@api("nvmlDeviceCreateGpuInstance")
def create_anywhere(call: Call) -> None:
    create_gi(call, gi_profile(call, call.u32(1), by="id"), None, 2)


@api("nvmlDeviceCreateGpuInstanceWithPlacement")
def create_at(call: Call) -> None:
    call.need(2)
    start, size = struct.unpack("<II", call.inputs[2])
    profile = gi_profile(call, call.u32(1), by="id")
    if size != profile.size:
        raise NvError(codes.INVALID_ARGUMENT)
    create_gi(call, profile, start, 3)


@api("nvmlDeviceGetGpuInstances")
def list_gis(call: Call) -> None:
    gpu = enabled(call)
    call.need(2, 3)
    call.root_only()
    gi_profile(call, call.u32(1), by="id")
    found = sorted(gi.id for gi in gpu.driver.gis if gi.profile == call.u32(1))
    data = b"".join(struct.pack("<Q", address(GI, gpu.index, number)) for number in found)
    call.put_number(3, len(found))
    if found:
        call.put(2, data)


def address(kind: int, gpu: int, gi: int, ci: int = 0) -> int:
    return encode(Handle(kind, gpu, gi, ci))


@api("nvmlDeviceGetGpuInstanceById")
def gi_by_id(call: Call) -> None:
    gpu = enabled(call)
    call.need(2)
    call.root_only()
    if call.u32(1) not in [gi.id for gi in gpu.driver.gis]:
        raise NvError(codes.NOT_FOUND)
    call.put_handle(2, Handle(GI, gpu.index, call.u32(1)))


@api("nvmlGpuInstanceGetInfo")
def gi_get_info(call: Call) -> None:
    gpu, gi = call.gi()
    data = struct.pack("<QIIII", address(GPU, gpu.index, 0), gi.id, gi.profile, gi.start, gi.size)
    call.put(1, data)


@api("nvmlGpuInstanceDestroy")
def destroy_gi(call: Call) -> None:
    gpu, gi = call.gi()
    call.root_only()
    if gi.cis or call.engine.on(gpu, gi.id):
        raise NvError(codes.IN_USE)
    gpu.driver.gis.remove(gi)
    call.engine.changed()
