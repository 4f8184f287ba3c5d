# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Workload power profiles, which GPUs from Blackwell on have. To be used while NVML is open."""

from __future__ import annotations

import ctypes
import typing as t

from ..._base.gpu import MISSING, MOST_PROFILES, Profiles, profile_name, profile_number
from .calls import asking, or_none, pynvml

CLEAR, OVERWRITE = 0, 2  # NVML_POWER_PROFILE_OPERATION_...
BITS = 32


class PowerProfiles(t.NamedTuple):
    """The profiles that were asked for, those that are enforced, and all of the board with whom each conflicts."""

    requested: Profiles
    enforced: Profiles
    board: t.Mapping[str, Profiles]


def power_profiles(handle: t.Any) -> PowerProfiles:
    """Return what there is of them. pynvml's error: the GPU, the driver or pynvml has none."""
    current = _current(handle)
    requested, enforced = current.requestedProfilesMask, current.enforcedProfilesMask
    return PowerProfiles(_names(requested), _names(enforced), _board(handle))


def request_profiles(handle: t.Any, desired: Profiles) -> None:
    """Ask for these profiles and for no others. pynvml's error: the GPU does not take them."""
    before = _names(_current(handle).requestedProfilesMask)
    # Nothing says that an empty mask overwrites, so that none is wanted is said by clearing what there is.
    operation, mask = (OVERWRITE, desired) if desired else (CLEAR, before)
    if or_none(MISSING, _update, handle, operation, mask) is None:
        gone = tuple(profile for profile in before if profile not in desired)
        for name, profiles in (("Clear", gone), ("Set", desired)):
            if profiles:
                _request(name, handle, profiles)


def _names(mask: t.Any) -> Profiles:
    return tuple(map(profile_name, _numbers(mask)))


def _numbers(mask: t.Any) -> t.List[int]:
    return [n for n in range(MOST_PROFILES) if mask.mask[n // BITS] >> n % BITS & 1]


def _fill(mask: t.Any, profiles: Profiles) -> None:
    for n in map(profile_number, profiles):
        if n is not None:
            mask.mask[n // BITS] |= 1 << n % BITS


def _current(handle: t.Any) -> t.Any:
    result = asking("c_nvmlWorkloadPowerProfileCurrentProfiles_v1_t")()
    asking("nvmlDeviceWorkloadPowerProfileGetCurrentProfiles")(handle, ctypes.byref(result))
    return result


def _board(handle: t.Any) -> t.Dict[str, Profiles]:
    structure = pynvml.c_nvmlWorkloadPowerProfileProfilesInfo_v1_t()
    asking("nvmlDeviceWorkloadPowerProfileGetProfilesInfo")(handle, ctypes.byref(structure))
    entries = structure.perfProfile  # by their ids
    board = _numbers(structure.perfProfilesMask)
    return {profile_name(n): _names(entries[n].conflictingmask) for n in board}


def _update(handle: t.Any, operation: int, profiles: Profiles) -> int:
    asked = asking("c_nvmlWorkloadPowerProfileUpdateProfiles_v1_t")()
    asked.operation = operation
    _fill(asked.updateProfilesMask, profiles)
    asking("nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1")(handle, ctypes.byref(asked))
    return 0


def _request(verb: str, handle: t.Any, profiles: Profiles) -> None:
    """Add profiles or take some away, as drivers before 590 do."""
    asked = pynvml.c_nvmlWorkloadPowerProfileRequestedProfiles_v1_t()
    _fill(asked.requestedProfilesMask, profiles)
    call = f"nvmlDeviceWorkloadPowerProfile{verb}RequestedProfiles"
    asking(call)(handle, ctypes.byref(asked))
