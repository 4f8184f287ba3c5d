# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each simulated function gives the errors that nvml.h documents for it, and no others."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
from nvsim import api, codes
from nvsim.call import FUNCTIONS
from nvsim.testing import Sim, client, start

HERE = Path(__file__).parent
HEADER = {
    name: (kinds, frozenset(getattr(codes, one) for one in listed))
    for name, kinds, *listed in map(
        str.split,
        re.findall(r"^nvml.*$", (HERE / "documented.txt").read_text(), re.MULTILINE),
    )
}
# "Requires privileged user", or root.
PRIVILEGED = (
    "nvmlComputeInstanceDestroy",
    "nvmlDeviceCreateGpuInstance",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlDeviceGetGpuInstanceById",
    "nvmlDeviceGetGpuInstancePossiblePlacements",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstanceRemainingCapacity",
    "nvmlDeviceGetGpuInstances",
    "nvmlDeviceSetComputeMode",
    "nvmlDeviceSetMigMode",
    "nvmlDeviceSetPersistenceMode",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    "nvmlGpuInstanceDestroy",
    "nvmlGpuInstanceGetComputeInstanceById",
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity",
    "nvmlGpuInstanceGetComputeInstances",
)
# What a number has to be, else 0, and one that the header calls invalid.
NUMBERS = {
    "nvmlDeviceCreateGpuInstance": (1, 19, 77),
    "nvmlDeviceCreateGpuInstanceWithPlacement": (1, 19, 77),
    "nvmlDeviceGetApplicationsClock": (1, 0, 4),
    "nvmlDeviceGetClockInfo": (1, 0, 4),
    "nvmlDeviceGetCpuAffinity": (1, 1, 0),
    "nvmlDeviceGetCpuAffinityWithinScope": (1, 1, 0),
    "nvmlDeviceGetGpuInstancePossiblePlacements": (1, 19, 77),
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": (1, 19, 77),
    "nvmlDeviceGetGpuInstanceProfileInfo": (1, 0, 99),
    "nvmlDeviceGetGpuInstanceProfileInfoV": (1, 0, 99),
    "nvmlDeviceGetGpuInstanceRemainingCapacity": (1, 19, 77),
    "nvmlDeviceGetGpuInstances": (1, 19, 77),
    "nvmlDeviceGetHandleByIndex": (0, 0, 3),
    "nvmlDeviceGetHandleByIndex_v2": (0, 0, 3),
    "nvmlDeviceGetMaxClockInfo": (1, 0, 4),
    "nvmlDeviceGetMemoryAffinity": (1, 1, 0),
    "nvmlDeviceGetMemoryErrorCounter": (1, 0, 2),
    "nvmlDeviceGetNvLinkCapability": (2, 0, 6),
    "nvmlDeviceGetNvLinkErrorCounter": (2, 0, 5),
    "nvmlDeviceGetNvLinkRemoteDeviceType": (1, 0, 18),
    "nvmlDeviceGetNvLinkRemotePciInfo": (1, 0, 18),
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": (1, 0, 18),
    "nvmlDeviceGetNvLinkState": (1, 0, 18),
    "nvmlDeviceGetNvLinkVersion": (1, 0, 18),
    "nvmlDeviceGetP2PStatus": (2, 0, 5),
    "nvmlDeviceGetTemperature": (1, 0, 1),
    "nvmlDeviceGetTopologyNearestGpus": (1, 50, 7),
    "nvmlDeviceGetTotalEccErrors": (2, 0, 2),
    "nvmlDeviceRegisterEvents": (1, 8, 1 << 40),
    "nvmlDeviceSetComputeMode": (1, 0, 4),
    "nvmlDeviceSetMigMode": (1, 1, 2),
    "nvmlDeviceSetPersistenceMode": (1, 0, 2),
    "nvmlGpuInstanceCreateComputeInstance": (1, 0, 99),
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": (1, 0, 99),
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements": (1, 0, 99),
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": (1, 0, 99),
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": (1, 0, 99),
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity": (1, 0, 99),
    "nvmlGpuInstanceGetComputeInstances": (1, 0, 99),
    "nvmlSystemGetProcessName": (0, 1, 0x7FFFFFFF),
}
VERSIONED = {
    "nvmlDeviceGetMemoryInfo_v2": 2 << 24 | 40,
    "nvmlDeviceGetGpuInstanceProfileInfoV": 2 << 24 | 152,
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": 2 << 24 | 136,
    "nvmlDeviceGetGpuFabricInfoV": 2 << 24 | 40,
    "nvmlDeviceGetTemperatureV": 1 << 24 | 12,
}
# Where nothing that is documented fits, or the header and what clients show differ.
DIFFERS = {
    "nvmlDeviceGetTemperatureV": {codes.FUNCTION_NOT_FOUND},  # of 570 and newer
    "nvmlDeviceGetMemoryLimits_v1": {codes.FUNCTION_NOT_FOUND},  # of 615 and newer
    "nvmlDeviceSetMemoryLimits_v1": {codes.FUNCTION_NOT_FOUND},
    "nvmlDeviceGetBoardPartNumber": {
        codes.INSUFFICIENT_SIZE
    },  # as of all others that fill a buffer
    "nvmlDeviceGetGpuFabricInfoV": {codes.INVALID_ARGUMENT},  # nothing is documented but success
    "nvmlEventSetFree": {codes.INVALID_ARGUMENT},
    "nvmlDeviceGetGpuInstanceProfileInfoV": {codes.ARGUMENT_VERSION_MISMATCH},
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": {codes.ARGUMENT_VERSION_MISMATCH},
}
# What a library knows of a GPU that it met before that was lost; the header lists the error all the same.
KNOWN_BY_HEART = (
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetPciInfo_v2",
    "nvmlDeviceGetPciInfo_v3",
)
EVERYWHERE = {codes.SUCCESS, codes.GPU_IS_LOST, codes.RESET_REQUIRED, codes.UNINITIALIZED}
ASK = """
lib = ctypes.CDLL("libnvidia-ml.so.1")
W, room = ctypes.c_uint64, (lambda size=1 << 15: ctypes.create_string_buffer(size))
def handle(name, *args):
    out = ctypes.c_void_p()
    assert getattr(lib, name)(*[W(a) if isinstance(a, int) else a for a in args], ctypes.byref(out)) == 0, name
    return out.value or 0
found = {name: {"uninitialised": getattr(lib, name)(*[W(0)] * 6)} for name in table}
assert lib.nvmlInit_v2() == 0
gpus = [handle("nvmlDeviceGetHandleByIndex_v2", i) for i in (0, 1)]
gi = handle("nvmlDeviceGetGpuInstanceById", gpus[1], GI) if os.getuid() == 0 else GI_HANDLE
ci = handle("nvmlGpuInstanceGetComputeInstanceById", gi, 0) if os.getuid() == 0 else CI_HANDLE
mig = handle("nvmlDeviceGetMigDeviceHandleByIndex", gpus[1], 0)
events = handle("nvmlEventSetCreate")
lost = gpus[0] + (2 << 15)
stale = {"G": gi + (50 << 8), "C": ci + (9 << 4), "M": mig + (50 << 8)}
good = {"D": gpus[0], "Q": gpus[1], "M": mig, "G": gi, "C": ci, "E": events}
def call(name, kinds, at=-1, instead=0):
    number = numbers.get(name, (-1, 0, 0))
    words, kept = [], []
    for i, kind in enumerate(kinds):
        if i == at: words.append(W(instead)); continue
        if kind in good: words.append(W(good[kind])); continue
        if kind == "U": words.append(W(number[1] if i == number[0] else 0)); continue
        if kind == "L": words.append(W(200)); continue
        buffer = room()
        if kind == "S": buffer.value = b"GPU-none"
        if kind == "I": ctypes.memmove(buffer, bytes(ctypes.c_uint32(0)) + bytes(ctypes.c_uint32(1)), 8)
        if kind == "P" and name in versions: ctypes.memmove(buffer, bytes(ctypes.c_uint32(versions[name])), 4)
        if kind == "P" and "p" in kinds: ctypes.memmove(buffer, bytes(ctypes.c_uint32(100)), 4)
        kept.append(buffer); words.append(ctypes.byref(buffer))
    return getattr(lib, name)(*words)
for name, kinds in table.items():
    answers = found[name]
    for i, kind in enumerate(kinds):
        if kind not in "pUL": answers[f"null {i}"] = call(name, kinds, i)
        if kind in stale: answers[f"stale {i}"] = call(name, kinds, i, stale[kind])
        if kind in "DQ": answers[f"lost {i}"] = call(name, kinds, i, lost)
        if kind in "DQMGCE": answers[f"odd {i}"] = call(name, kinds, i, 0x1234)
        if kind == "L": answers["short"] = call(name, kinds, i, 1)
        if kind == "L": answers["no room"] = call(name, kinds, i, 0)
    if name in numbers: answers["number"] = call(name, kinds, numbers[name][0], numbers[name][2])
    if "Destroy" not in name and "Free" not in name: answers["good"] = call(name, kinds)
answer(found)
"""


def ask(sim: Sim, *lines: str) -> Any:
    table = {name: kinds for name, (kinds, _listed) in HEADER.items()}
    told = f"table, numbers, versions = {table!r}, {NUMBERS!r}, {VERSIONED!r}\n"
    gi = sim.ctl("status")["gpus"][1]["mig_devices"][0]["gi"]
    return client(sim, "\n".join([*lines, told, f"GI = {gi}", ASK]))


@functools.cache
def answers() -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """Return what root and another user get: by function and by what is odd about the call."""
    with start("h100-80", 3) as sim:
        handles = client(
            sim,
            """
            n.nvmlInit()
            h = n.nvmlDeviceGetHandleByIndex(1)
            n.nvmlDeviceSetMigMode(h, 1)
            gi = n.nvmlDeviceCreateGpuInstance(h, 19)
            ci = n.nvmlGpuInstanceCreateComputeInstance(gi, 0)
            answer([ctypes.cast(one, ctypes.c_void_p).value for one in (gi, ci)])
            """,
        )
        sim.ctl("lose", gpu="2")
        named = f"GI_HANDLE, CI_HANDLE = {handles}"
        user = ask(sim, "os.setuid(65534)", named)
        return ask(sim, named), user


@pytest.fixture(params=HEADER)
def function(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def got(function: str, of: str) -> dict[str, int]:
    return {case: code for case, code in answers()[0][function].items() if case.startswith(of)}


def test_each_function_that_is_simulated_is_in_the_table() -> None:
    assert api.__all__  # importing it has registered them
    public = {name for name in FUNCTIONS if name.startswith("nvml")}
    assert public - {"nvmlInitWithFlags"} == set(HEADER)


def test_no_other_errors_than_the_documented_ones(function: str) -> None:
    known = HEADER[function][1] | EVERYWHERE | DIFFERS.get(function, set())
    assert {case: code for case, code in got(function, "").items() if code not in known} == {}


def test_before_anything_else_it_has_to_be_initialised(function: str) -> None:
    """It says: "if library has not been successfully initialized", whatever the arguments are."""
    assert got(function, "uninit") == {"uninitialised": codes.UNINITIALIZED}


def test_what_is_missing_is_an_invalid_argument(function: str) -> None:
    """It says: "if device is invalid, or mode is NULL" and the like."""
    if function in DIFFERS and codes.FUNCTION_NOT_FOUND in DIFFERS[function]:
        return
    for case, code in (got(function, "null") | got(function, "odd")).items():
        assert code == codes.INVALID_ARGUMENT, case


def test_a_number_out_of_its_range_is_an_invalid_argument(function: str) -> None:
    if function in NUMBERS:
        missing = function == "nvmlSystemGetProcessName"  # "if process doesn't exists"
        expected = codes.NOT_FOUND if missing else codes.INVALID_ARGUMENT
        assert got(function, "number") == {"number": expected}


def test_handles_of_what_was_destroyed_are_invalid(function: str) -> None:
    for case, code in got(function, "stale").items():
        assert code == codes.INVALID_ARGUMENT, case


def test_a_buffer_that_is_too_small(function: str) -> None:
    """It says: "if length is too small"; a process's name is cropped to it, and has to have one."""
    kinds, _listed = HEADER[function]
    if "L" not in kinds:
        return
    crops = function == "nvmlSystemGetProcessName"
    assert got(function, "short") == {"short": 0 if crops else codes.INSUFFICIENT_SIZE}
    none = codes.INVALID_ARGUMENT if crops else codes.INSUFFICIENT_SIZE
    assert got(function, "no room") == {"no room": none}


def test_a_gpu_that_is_lost(function: str) -> None:
    """It says: "if the target GPU has fallen off the bus or is otherwise inaccessible"."""
    if codes.GPU_IS_LOST in HEADER[function][1] and function not in KNOWN_BY_HEART:
        for case, code in got(function, "lost").items():
            assert code in (codes.GPU_IS_LOST, codes.FUNCTION_NOT_FOUND), case


@pytest.mark.parametrize("name", PRIVILEGED)
def test_what_needs_a_privileged_user(name: str) -> None:
    root, user = answers()
    assert codes.NO_PERMISSION in HEADER[name][1]
    assert codes.NO_PERMISSION not in root[name].values()
    if "good" in user[name]:
        assert user[name]["good"] == codes.NO_PERMISSION


def test_nobody_else_needs_to_be_privileged() -> None:
    _root, user = answers()
    refused = {name for name, found in user.items() if codes.NO_PERMISSION in found.values()}
    assert refused <= set(PRIVILEGED)
