# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Workload power profiles: those that a board has, those that were asked for, and those that are enforced.

Asked for are those that root has asked for, until the driver is unloaded. Of two that conflict the one of higher
priority is enforced, whose number is the lower one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pynvml

from ..call import Call, api
from ..catalog import PowerProfile
from ..codes import ARGUMENT_VERSION_MISMATCH, INVALID_ARGUMENT, NOT_SUPPORTED, NvError
from ..state import Gpu

WORDS = 8  # of a mask
CLEAR, SET, OVERWRITE = range(3)


@api("nvmlDeviceWorkloadPowerProfileGetProfilesInfo")
def profiles_info(call: Call) -> None:
    """Tell of each profile at the place of its id, as nvidia-smi reads it."""
    gpu = _gpu(call)
    found = pynvml.c_nvmlWorkloadPowerProfileProfilesInfo_v1_t()
    _fill(found.perfProfilesMask, (one.id for one in gpu.product.power_profiles))
    for one in gpu.product.power_profiles:
        entry = pynvml.c_nvmlWorkloadPowerProfileInfo_v1_t()
        entry.profileId, entry.priority = one.id, one.priority
        _fill(entry.conflictingmask, one.conflicts)
        found.perfProfile[one.id] = entry
    _answer(call, found)


@api("nvmlDeviceWorkloadPowerProfileGetCurrentProfiles")
def current_profiles(call: Call) -> None:
    gpu = _gpu(call)
    found = pynvml.c_nvmlWorkloadPowerProfileCurrentProfiles_v1_t()
    _fill(found.perfProfilesMask, (one.id for one in gpu.product.power_profiles))
    _fill(found.requestedProfilesMask, gpu.driver.power_profiles)
    _fill(found.enforcedProfilesMask, enforced(gpu))
    _answer(call, found)


@api("nvmlDeviceWorkloadPowerProfileSetRequestedProfiles")
def set_requested(call: Call) -> None:
    _update(call, SET, pynvml.nvmlWorkloadPowerProfileRequestedProfiles_v1)


@api("nvmlDeviceWorkloadPowerProfileClearRequestedProfiles")
def clear_requested(call: Call) -> None:
    _update(call, CLEAR, pynvml.nvmlWorkloadPowerProfileRequestedProfiles_v1)


@api("nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1")
def update(call: Call) -> None:
    """Of all three the one whose struct begins with the operation instead of a version."""
    call.need(1)
    operation = call.number_in(1)
    if operation > OVERWRITE:
        raise NvError(INVALID_ARGUMENT)
    _update(call, operation, operation)


def enforced(gpu: Gpu) -> set[int]:
    """Return the profiles that are in force."""
    asked = [one for one in gpu.product.power_profiles if one.id in gpu.driver.power_profiles]
    found: list[PowerProfile] = []
    for one in sorted(asked, key=lambda one: (one.priority, one.id)):
        if not any(one.id in other.conflicts or other.id in one.conflicts for other in found):
            found.append(one)
    return {one.id for one in found}


def _gpu(call: Call) -> Gpu:
    """Return a GPU that has profiles."""
    call.need(1)
    gpu = call.gpu(mig_too=False)
    if not gpu.product.power_profiles:
        raise NvError(NOT_SUPPORTED)
    return gpu


def _answer(call: Call, found: pynvml.Structure) -> None:
    if call.number_in(1) != found.version:
        raise NvError(ARGUMENT_VERSION_MISMATCH)
    call.put_struct(1, found)


def _update(call: Call, operation: int, word: int) -> None:
    """Change what is asked for: all that the mask has, or nothing where the board lacks one."""
    gpu = _gpu(call)
    if call.number_in(1) != word:
        raise NvError(ARGUMENT_VERSION_MISMATCH)
    words = struct.unpack(f"<{WORDS}I", call.inputs[1][4 : 4 + 4 * WORDS])
    asked = {32 * at + bit for at, one in enumerate(words) for bit in range(32) if one >> bit & 1}
    if not asked <= {one.id for one in gpu.product.power_profiles}:
        raise NvError(INVALID_ARGUMENT)
    call.root_only()
    before = set(gpu.driver.power_profiles)
    after = {CLEAR: before - asked, SET: before | asked, OVERWRITE: asked}[operation]
    gpu.driver.power_profiles = sorted(after)
    call.engine.changed()


def _fill(mask: pynvml.Structure, ids: Iterable[int]) -> None:
    for one in ids:
        mask.mask[one // 32] |= 1 << one % 32
