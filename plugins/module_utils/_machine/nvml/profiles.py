# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Workload power profiles, of GPUs from Blackwell on. To be used while NVML is open."""

from __future__ import annotations

import ctypes
import typing as t

from ..._base.gpu import MISSING, MOST_PROFILES, Profiles, profile_name, profile_number
from .calls import asking, or_none, pynvml

CLEAR, OVERWRITE = 0, 2  # NVML_POWER_PROFILE_OPERATION_...
BITS = 32


class PowerProfiles(t.NamedTuple):
    """The requested and the enforced profiles, and all profiles of the board with those that each conflicts with."""

    requested: Profiles
    enforced: Profiles
    board: t.Mapping[str, Profiles]


def power_profiles(handle: t.Any) -> PowerProfiles:
    """Return the profiles of a GPU.

    Raises:
        pynvml.NVMLError: if the GPU, the driver or pynvml has none.
    """
    current = _current(handle)
    info = pynvml.c_nvmlWorkloadPowerProfileProfilesInfo_v1_t()
    asking("nvmlDeviceWorkloadPowerProfileGetProfilesInfo")(handle, ctypes.byref(info))
    return PowerProfiles(
        _names(current.requestedProfilesMask),
        _names(current.enforcedProfilesMask),
        {
            profile_name(number): _names(info.perfProfile[number].conflictingmask)
            for number in _numbers(info.perfProfilesMask)
        },
    )


def request_profiles(handle: t.Any, desired: Profiles) -> None:
    """Request these profiles and no others.

    Raises:
        pynvml.NVMLError: if the GPU does not take them.
    """
    before = _names(_current(handle).requestedProfilesMask)
    # It is not documented that an empty mask overwrites, so no profiles are requested by clearing those that there are.
    operation, profiles = (OVERWRITE, desired) if desired else (CLEAR, before)
    if or_none(MISSING, _update, handle, operation, profiles) is None:
        # Drivers before 590 only add profiles or take some away.
        gone = tuple(profile for profile in before if profile not in desired)
        for verb, profiles in (("Clear", gone), ("Set", desired)):
            if profiles:
                request = pynvml.c_nvmlWorkloadPowerProfileRequestedProfiles_v1_t()
                _fill(request.requestedProfilesMask, profiles)
                call = f"nvmlDeviceWorkloadPowerProfile{verb}RequestedProfiles"
                asking(call)(handle, ctypes.byref(request))


def _names(mask: t.Any) -> Profiles:
    return tuple(map(profile_name, _numbers(mask)))


def _numbers(mask: t.Any) -> t.List[int]:
    bits = (mask.mask[number // BITS] >> number % BITS & 1 for number in range(MOST_PROFILES))
    return [number for number, bit in enumerate(bits) if bit]


def _fill(mask: t.Any, profiles: Profiles) -> None:
    for number in map(profile_number, profiles):
        if number is not None:
            mask.mask[number // BITS] |= 1 << number % BITS


def _current(handle: t.Any) -> t.Any:
    result = asking("c_nvmlWorkloadPowerProfileCurrentProfiles_v1_t")()
    asking("nvmlDeviceWorkloadPowerProfileGetCurrentProfiles")(handle, ctypes.byref(result))
    return result


def _update(handle: t.Any, operation: int, profiles: Profiles) -> int:
    request = asking("c_nvmlWorkloadPowerProfileUpdateProfiles_v1_t")()
    request.operation = operation
    _fill(request.updateProfilesMask, profiles)
    asking("nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1")(handle, ctypes.byref(request))
    return 0
