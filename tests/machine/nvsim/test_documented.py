# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each simulated function gives the errors that nvml.h documents for it, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    "nvmlDeviceResetGpuLockedClocks",
    "nvmlDeviceResetMemoryLockedClocks",
    "nvmlDeviceSetAccountingMode",
    "nvmlDeviceSetComputeMode",
    "nvmlDeviceSetEccMode",
    "nvmlDeviceSetGpuLockedClocks",
    "nvmlDeviceSetMemoryLockedClocks",
    "nvmlDeviceSetMigMode",
    "nvmlDeviceSetPersistenceMode",
    "nvmlDeviceSetPowerManagementLimit",
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
    "nvmlDeviceGetInforomVersion": (1, 0, 9),
    "nvmlDeviceGetMaxClockInfo": (1, 0, 4),
    "nvmlDeviceGetMaxCustomerBoostClock": (1, 0, 4),
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
    "nvmlDeviceGetSupportedGraphicsClocks": (1, 2619, 1),
    "nvmlDeviceGetTemperature": (1, 0, 1),
    "nvmlDeviceGetTopologyNearestGpus": (1, 50, 7),
    "nvmlDeviceGetTotalEccErrors": (2, 0, 2),
    "nvmlDeviceRegisterEvents": (1, 8, 1 << 40),
    "nvmlDeviceSetAccountingMode": (1, 0, 2),
    "nvmlDeviceSetComputeMode": (1, 0, 4),
    "nvmlDeviceSetEccMode": (1, 0, 2),
    "nvmlDeviceSetGpuLockedClocks": (1, 0, 2000),
    "nvmlDeviceSetMemoryLockedClocks": (1, 0, 2000),
    "nvmlDeviceSetMigMode": (1, 1, 2),
    "nvmlDeviceSetPersistenceMode": (1, 0, 2),
    "nvmlDeviceSetPowerManagementLimit": (1, 700000, 1),
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
    "nvmlDeviceGetSramEccErrorStatus": 1 << 24 | 104,
}
POWER_PROFILES = [name for name in HEADER if "WorkloadPowerProfile" in name]
# Where nothing that is documented fits, or the header and what clients show differ.
DIFFERS: dict[str, set[int]] = {
    "nvmlDeviceGetTemperatureV": {codes.FUNCTION_NOT_FOUND},  # of 570 and newer
    "nvmlDeviceGetRemappedRows_v2": {codes.FUNCTION_NOT_FOUND},  # of 580 and newer
    "nvmlDeviceGetRepairStatus": {codes.FUNCTION_NOT_FOUND},
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": {codes.FUNCTION_NOT_FOUND},  # of 590 and newer
    "nvmlDeviceGetMemoryLimits_v1": {codes.FUNCTION_NOT_FOUND},  # of 615 and newer
    "nvmlDeviceSetMemoryLimits_v1": {codes.FUNCTION_NOT_FOUND},
    **{name: {codes.FUNCTION_NOT_FOUND} for name in POWER_PROFILES},  # of 570 and 590
    "nvmlDeviceGetBoardPartNumber": {
        codes.INSUFFICIENT_SIZE
    },  # as of all others that fill a buffer
    "nvmlDeviceGetGpuFabricInfoV": {codes.INVALID_ARGUMENT},  # nothing is documented but success
    "nvmlDeviceResetGpuLockedClocks": {codes.NO_PERMISSION},  # which "requires root"
    "nvmlDeviceResetMemoryLockedClocks": {codes.NO_PERMISSION},
    "nvmlDeviceSetPowerManagementLimit": {codes.NO_PERMISSION},
    "nvmlDeviceSetPowerManagementLimit_v2": {codes.NO_PERMISSION, codes.ARGUMENT_VERSION_MISMATCH},
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


@dataclass(frozen=True)
class Asked:
    """What a function answered, to root and to another user: a code for each odd way to call it."""

    name: str
    root: dict[str, int]
    user: dict[str, int]

    @property
    def kinds(self) -> str:
        return HEADER[self.name][0]

    @property
    def listed(self) -> frozenset[int]:
        return HEADER[self.name][1]

    def but(self, of: str, *allowed: int) -> Iterator[str]:
        """Yield the calls of these ways, by root, that are answered by something else."""
        for way, code in self.root.items():
            if way.startswith(of) and code not in allowed:
                yield f"{way}: {code}"

    @property
    def there(self) -> bool:
        """Return whether the driver's branch has the function."""
        return codes.FUNCTION_NOT_FOUND not in DIFFERS.get(self.name, ())


def no_other_errors(one: Asked) -> Iterator[str]:
    """The header lists the errors of each function, and there are no others."""
    yield from one.but("", *one.listed, *EVERYWHERE, *DIFFERS.get(one.name, ()))


def initialised_first(one: Asked) -> Iterator[str]:
    """It says: "if library has not been successfully initialized", whatever the arguments are."""
    yield from one.but("uninit", codes.UNINITIALIZED)


def invalid_where_missing(one: Asked) -> Iterator[str]:
    """It says: "if device is invalid, or mode is NULL" and the like."""
    for of in ("null", "odd") if one.there else ():
        yield from one.but(of, codes.INVALID_ARGUMENT)


def invalid_out_of_range(one: Asked) -> Iterator[str]:
    """It says so of each number that has a range; of a process, or a clock that is looked up, that there is none.

    Of the clock of a domain that is none, an H100 says that it has none.
    """
    others = {
        "nvmlSystemGetProcessName": codes.NOT_FOUND,
        "nvmlDeviceGetSupportedGraphicsClocks": codes.NOT_FOUND,
        "nvmlDeviceGetClockInfo": codes.NOT_SUPPORTED,
    }
    yield from one.but("number", others.get(one.name, codes.INVALID_ARGUMENT))


def invalid_once_destroyed(one: Asked) -> Iterator[str]:
    """A handle of what was destroyed is no valid one."""
    yield from one.but("stale", codes.INVALID_ARGUMENT)


def too_small(one: Asked) -> Iterator[str]:
    """It says: "if length is too small"; a process's name is cropped to it, and has to have one."""
    crops = one.name == "nvmlSystemGetProcessName"
    yield from one.but("short", codes.SUCCESS if crops else codes.INSUFFICIENT_SIZE)
    yield from one.but("no room", codes.INVALID_ARGUMENT if crops else codes.INSUFFICIENT_SIZE)


def lost(one: Asked) -> Iterator[str]:
    """It says: "if the target GPU has fallen off the bus or is otherwise inaccessible"."""
    if codes.GPU_IS_LOST in one.listed and one.name not in KNOWN_BY_HEART:
        yield from one.but("lost", codes.GPU_IS_LOST, codes.FUNCTION_NOT_FOUND)


def privileged(one: Asked) -> Iterator[str]:
    """It says of some: "if the user doesn't have permission to perform this operation"; of no others."""
    if codes.NO_PERMISSION in one.root.values():
        yield "root is refused"
    if one.name not in PRIVILEGED and codes.NO_PERMISSION in one.user.values():
        yield "another user is refused"
    if one.name in PRIVILEGED and one.user.get("good") not in (None, codes.NO_PERMISSION):
        yield "another user is not refused"


RULES: tuple[Callable[[Asked], Iterator[str]], ...] = (
    no_other_errors,
    initialised_first,
    invalid_where_missing,
    invalid_out_of_range,
    invalid_once_destroyed,
    too_small,
    lost,
    privileged,
)


def answers() -> list[Asked]:
    """Return what each function answers."""
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
        root = ask(sim, named)
    return [Asked(name, root[name], user[name]) for name in HEADER]


def test_each_simulated_function_is_in_the_table() -> None:
    assert api.__all__  # importing it has registered them
    public = {name for name in FUNCTIONS if name.startswith("nvml")}
    assert public - {"nvmlInitWithFlags"} == set(HEADER)
    assert all(
        codes.NO_PERMISSION in HEADER[name][1] | DIFFERS.get(name, set()) for name in PRIVILEGED
    )


def test_each_function_gives_the_errors_that_the_header_documents() -> None:
    found = answers()
    wrong = [
        f"{one.name}, {rule.__name__}: {what}"
        for one in found
        for rule in RULES
        for what in rule(one)
    ]
    assert wrong == []
    odd = {way.split()[0] for one in found for way in one.root}
    assert odd == {"uninitialised", "null", "stale", "lost", "odd", "short", "no", "number", "good"}
    assert {name for name in HEADER if "L" in HEADER[name][0]} == {
        one.name for one in found if {"short", "no room"} <= set(one.root)
    }
    assert set(NUMBERS) == {one.name for one in found if "number" in one.root}
