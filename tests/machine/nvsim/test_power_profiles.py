# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Workload power profiles of Blackwell, as clients of NVML meet them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from nvsim.testing import Sim, client, start

DRIVER = "590.48.01"
PREFIX = "nvmlDeviceWorkloadPowerProfile"
SETUP = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
def struct(kind): return getattr(n, f"c_nvmlWorkloadPowerProfile{kind}_v1_t")()
def bits(mask):
    return [32 * at + bit for at, word in enumerate(mask.mask) for bit in range(32) if word >> bit & 1]
def call(name, struct): return code(getattr(n, PREFIX + name), h, ctypes.byref(struct))
def change(name, made, mask, ids):
    for one in ids: mask.mask[one // 32] |= 1 << one % 32
    return call(name, made)
def update(operation, *ids):
    made = struct("UpdateProfiles")
    made.operation = operation
    return change("UpdateProfiles_v1", made, made.updateProfilesMask, ids)
def older(verb, *ids):
    made = struct("RequestedProfiles")
    return change(verb + "RequestedProfiles", made, made.requestedProfilesMask, ids)
def read(version=None):
    made = struct("CurrentProfiles")
    made.version = version or made.version
    return call("GetCurrentProfiles", made)
def current():
    made = struct("CurrentProfiles")
    call("GetCurrentProfiles", made)
    return [bits(made.requestedProfilesMask), bits(made.enforcedProfilesMask)]
def board():
    made = struct("ProfilesInfo")
    call("GetProfilesInfo", made)
    every = bits(made.perfProfilesMask)
    return [every, {one.profileId: bits(one.conflictingmask) for one in made.perfProfile if bits(one.conflictingmask)}]
"""
NOBODY = "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"


@pytest.fixture
def b200() -> Iterator[Sim]:
    with start("b200", 2, driver=DRIVER) as sim:
        yield sim


def ask(sim: Sim, code: str, before: str = "") -> Any:
    return client(sim, f"{before}PREFIX = {PREFIX!r}{SETUP}answer({code})")


def test_a_board_tells_which_profiles_it_has_and_which_conflict(b200: Sim) -> None:
    conflicts = {"0": [1], "1": [0], "2": [3], "3": [2], "6": [7], "7": [6]}
    assert ask(b200, "board()") == [[0, 1, 2, 3, 4, 6, 7], conflicts]


def test_profiles_are_added_cleared_and_overwritten_and_of_two_that_conflict_one_is_enforced(
    b200: Sim,
) -> None:
    assert ask(b200, "[update(1, 6), update(1, 7), current()]") == [0, 0, [[6, 7], [6]]]
    assert ask(b200, "[update(0, 6), current()]") == [0, [[7], [7]]]
    assert ask(b200, "[update(2, 1, 4), current()]") == [0, [[1, 4], [1, 4]]]
    assert ask(b200, "[update(2), current()]") == [0, [[], []]]


def test_a_profile_that_the_board_lacks_and_an_odd_operation_are_refused(b200: Sim) -> None:
    assert ask(b200, "[update(1, 6, 5), update(3, 6), current()]") == [2, 2, [[], []]]


def test_older_drivers_have_the_older_functions_and_still_older_ones_none() -> None:
    with start("b200", 1, driver="570.86.15") as sim:
        said = ask(sim, "[update(1, 6), older('Set', 6, 4), older('Clear', 4), current()]")
    assert said == [13, 0, 0, [[6], [6]]]
    with start("b200", 1) as sim:
        assert ask(sim, "[read(), older('Set', 6)]") == [13, 13]


def test_gpus_before_blackwell_have_none() -> None:
    with start("h100-80", 1, driver=DRIVER) as sim:
        assert ask(sim, "[read(), update(1, 6)]") == [3, 3]


def test_only_root_asks_for_profiles_and_everybody_reads_them(b200: Sim) -> None:
    assert ask(b200, "[update(1, 6), older('Set', 6), read()]", NOBODY) == [4, 4, 0]


def test_a_load_of_the_driver_and_a_reset_lose_them(b200: Sim) -> None:
    for event in ("reload", "reset"):
        assert ask(b200, "[update(1, 6), current()]") == [0, [[6], [6]]]
        b200.ctl(event, **({"gpu": "0"} if event == "reset" else {}))
        assert ask(b200, "current()") == [[], []]


def test_a_struct_of_another_version_is_refused(b200: Sim) -> None:
    assert ask(b200, "[read(1 << 24 | 96), read(2 << 24 | 100), read()]") == [25, 25, 0]
