# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG's compute instances."""

from __future__ import annotations

import struct

import pynvml

from .. import codes
from ..call import Call, api
from ..catalog import CiProfile, GiProfile, ci_profiles
from ..codes import NvError
from ..handles import CI, GI, GPU, Handle
from ..state import Ci, Gi, Gpu
from .mig import address


def ci_profile(call: Call, number: int) -> tuple[Gpu, Gi, GiProfile, CiProfile]:
    """Return a compute instance profile that the GPU instance of argument 0 offers."""
    gpu, gi = call.gi()
    profile = gpu.product.profile(gi.profile)
    if profile is not None:
        for one in ci_profiles(profile):
            if one.id == number:
                return gpu, gi, profile, one
    raise NvError(codes.NOT_SUPPORTED if number < 9 else codes.INVALID_ARGUMENT)


def ci_info(profile: GiProfile, one: CiProfile) -> dict[str, int]:
    """Return the fields of a compute instance profile."""
    return {
        "id": one.id,
        "sliceCount": one.slices,
        "instanceCount": len(one.placements),
        "multiprocessorCount": profile.multiprocessors * one.slices // profile.slices,
        "sharedCopyEngineCount": profile.copy_engines,
        "sharedDecoderCount": profile.decoders,
        "sharedEncoderCount": 0,
        "sharedJpegCount": profile.jpegs,
        "sharedOfaCount": profile.ofas,
    }


@api("nvmlGpuInstanceGetComputeInstanceProfileInfo")
def ci_profile_info(call: Call) -> None:
    _gpu, _gi, profile, one = ci_profile(call, call.u32(1))
    call.put_struct(3, pynvml.c_nvmlComputeInstanceProfileInfo_t(**ci_info(profile, one)))


@api("nvmlGpuInstanceGetComputeInstanceProfileInfoV")
def ci_profile_info_v(call: Call) -> None:
    _gpu, _gi, profile, one = ci_profile(call, call.u32(1))
    suffix = profile.name if one.slices == profile.slices else f"{one.slices}c.{profile.name}"
    fields = {**ci_info(profile, one), "name": f"MIG {suffix}".encode()}
    call.put_versioned(3, pynvml.c_nvmlComputeInstanceProfileInfo_v2_t, 2, **fields)


def ci_places(gi: Gi, one: CiProfile) -> list[int]:
    """Return the places where such a compute instance can still stand."""
    return [
        at
        for at in one.placements
        if not any(at < ci.start + ci.size and ci.start < at + one.slices for ci in gi.cis)
    ]


@api("nvmlGpuInstanceGetComputeInstanceRemainingCapacity")
def ci_capacity(call: Call) -> None:
    call.root_only()
    _gpu, gi, _profile, one = ci_profile(call, call.u32(1))
    call.put_number(2, len(ci_places(gi, one)))


@api("nvmlGpuInstanceGetComputeInstancePossiblePlacements")
def ci_placements(call: Call) -> None:
    call.root_only()
    _gpu, _gi, _profile, one = ci_profile(call, call.u32(1))
    items = [struct.pack("<II", at, one.slices) for at in one.placements]
    call.put_list(3, 2, items, sizing_ok=True)


def create_ci(call: Call, start: int | None, at: int) -> None:
    """Create a compute instance and store its handle."""
    gpu, gi, _profile, one = ci_profile(call, call.u32(1))
    call.need(at)
    call.root_only()
    places = ci_places(gi, one)
    if start is not None and start not in one.placements:
        raise NvError(codes.INVALID_ARGUMENT)
    if not places or (start is not None and start not in places):
        raise NvError(codes.INSUFFICIENT_RESOURCES)
    number = next(n for n in range(16) if n not in [ci.id for ci in gi.cis])
    gi.cis.append(Ci(number, one.id, places[0] if start is None else start, one.slices))
    call.engine.changed()
    call.put_handle(at, Handle(CI, gpu.index, gi.id, number))


@api("nvmlGpuInstanceCreateComputeInstance")
def create_ci_anywhere(call: Call) -> None:
    create_ci(call, None, 2)


@api("nvmlGpuInstanceCreateComputeInstanceWithPlacement")
def create_ci_at(call: Call) -> None:
    call.need(2)
    create_ci(call, struct.unpack("<II", call.inputs[2])[0], 3)


@api("nvmlGpuInstanceGetComputeInstances")
def list_cis(call: Call) -> None:
    gpu, gi, _profile, one = ci_profile(call, call.u32(1))
    call.need(2, 3)
    call.root_only()
    found = [ci.id for ci in gi.cis if ci.profile == one.id]
    call.put_number(3, len(found))
    if found:
        call.put(2, b"".join(struct.pack("<Q", address(CI, gpu.index, gi.id, n)) for n in found))


@api("nvmlGpuInstanceGetComputeInstanceById")
def ci_by_id(call: Call) -> None:
    gpu, gi = call.gi()
    call.need(2)
    call.root_only()
    if call.u32(1) not in [ci.id for ci in gi.cis]:
        raise NvError(codes.NOT_FOUND)
    call.put_handle(2, Handle(CI, gpu.index, gi.id, call.u32(1)))


@api("nvmlComputeInstanceGetInfo", "nvmlComputeInstanceGetInfo_v2")
def ci_get_info(call: Call) -> None:
    gpu, gi, ci = call.ci()
    data = struct.pack(
        "<QQIIII",
        address(GPU, gpu.index, 0),
        address(GI, gpu.index, gi.id),
        ci.id,
        ci.profile,
        ci.start,
        ci.size,
    )
    call.put(1, data)


@api("nvmlComputeInstanceDestroy")
def destroy_ci(call: Call) -> None:
    gpu, gi, ci = call.ci()
    call.root_only()
    if call.engine.on(gpu, gi.id, ci.id):
        raise NvError(codes.IN_USE)
    gi.cis.remove(ci)
    call.engine.changed()
