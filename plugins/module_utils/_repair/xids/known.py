# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What NVIDIA's Xid catalog says of each XID, as far as public sources had it on the day that each row names.

The buckets are the immediate actions that the catalog names for Ampere and later. What it leaves to a flow of questions
is here the least that each of its ends asks for; where only a person can answer, a person is asked. ``driver`` is the
catalog's "Xid 154 linkage": the branch from which on the driver's recovery action covers the XID. It is left out of 79,
since a GPU that is off the bus can't be asked. XIDs without a bucket are left to the driver too, so they are not here.
"""

from __future__ import annotations

import typing as t

READ = "2026-11-24"
CATALOG = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
NOT_CORRECTED, ROW_REPLACED, ROW_NOT_REPLACED, MANY_CORRECTED = 48, 63, 64, 92
CONTAINED, NOT_CONTAINED, RECOVERY_CHANGED = 94, 95, 154
# XIDs of errors that the ECC counters count as well.
OF_MEMORY = frozenset(
    {NOT_CORRECTED, ROW_REPLACED, ROW_NOT_REPLACED, MANY_CORRECTED, CONTAINED, NOT_CONTAINED}
)


def _rows(action: str, meanings: t.Mapping[int, str], **more: t.Any) -> t.Dict[str, t.Any]:
    more.update(source=CATALOG, read=READ)
    return {
        str(number): {"action": action, "meaning": meaning, **more}
        for number, meaning in meanings.items()
    }


def _each(numbers: t.Iterable[int], meaning: str) -> t.Dict[int, str]:
    return dict.fromkeys(numbers, meaning)


APPLICATION = {
    8: "the GPU stopped processing",
    11: "an invalid or corrupted push buffer stream",
    13: "an exception of the graphics engine",
    25: "an invalid or illegal push buffer stream",
    31: "a memory page fault",
    45: "a preemptive cleanup, mostly after another error",
    60: "an exception of the video processor",
    68: "an exception of a video decoder",
    69: "a class error of the graphics engine",
    80: "corrupted data was sent to the GPU",
    **_each((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "a copy engine's error"),
    **_each((82, *range(99, 106)), "an error of a JPEG engine"),
    **_each((83, 84, 88, 89, 96, 97, 98), "an error of a video decoder"),
    **_each((86, 139), "an error of an optical flow engine"),
}
INFORMATION = {
    14: "a fake error",
    37: "a firmware error of the driver",
    38: "a firmware error of the driver",
    43: "the GPU stopped processing for an application that failed",
    44: "a fault of the graphics engine in a context switch",
    ROW_REPLACED: "a memory row was replaced",
    66: "an illegal access by the driver",
    67: "an illegal access by the driver",
    MANY_CORRECTED: "many corrected memory errors",
    93: "the InfoROM's wear limit",
    106: "a test message",
    107: "a test message",
    108: "a remote translation error of an NVLink",
    121: "corrected errors on a chip-to-chip link",
    137: "an NVLink access without privilege",
    141: "an error of CUDA's fast path",
    152: "an error of a deep learning accelerator",
    153: "an error of a deep learning accelerator",
    157: "a defective part could not be retired",
    160: "a channel was retired",
    161: "a channel could not be retired",
    162: "power smoothing engaged again",
    163: "power smoothing disengaged",
    164: "the circuit of power smoothing nears its end",
    165: "the circuit of power smoothing is at its end",
    171: "details of a memory error in DRAM",
    172: "details of a memory error in SRAM",
}
# By the branch from which on the driver's recovery action covers them, 0 for none.
RESET: t.Mapping[int, t.Mapping[int, str]] = {
    0: {
        46: "the GPU stopped processing",
        119: "its system processor does not answer",
        140: "memory errors that could not be corrected",
    },
    565: {
        NOT_CORRECTED: "a memory error that could not be corrected",
        62: "its microcontroller halted",
        ROW_NOT_REPLACED: "a memory row could not be replaced",
        74: "an NVLink failed",
        NOT_CONTAINED: "a memory error that was not contained",
        110: "a security fault",
        120: "its system processor failed",
        136: "the training of a link failed",
        149: "an NVLink is down",
        155: "an NVLink is down",
        156: "a defective part waits for a reset to be retired",
        158: "a fatal timeout",
    },
    570: {109: "a context switch timed out"},
    575: {143: "it could not be initialised"},
}
PERSON = {
    54: "its auxiliary power is not connected",
    78: "a vGPU could not be started",
    142: "an error of a video encoder",
}
# Those of NVLink 5 are fatal or not by details in the kernel log.
NVLINK5 = _each((*range(144, 149), 150), "an NVLink error of which the driver knows more")

TABLE: t.Dict[str, t.Any] = {
    "as_of": READ,
    "xids": {
        **_rows("restart_application", APPLICATION),
        # A GPU that copes with these again and again is not well, though each of them ends with an application.
        **_rows("restart_application", {32: "a corrupted push buffer"}, times=4, then="reset"),
        **_rows(
            "restart_application",
            {CONTAINED: "a memory error that only one application felt"},
            times=4,
            then="drain_then_reset",
            driver=565,
        ),
        **_rows("none", {**INFORMATION, RECOVERY_CHANGED: "the driver's recovery action changed"}),
        **{
            number: row
            for branch, meanings in RESET.items()
            for number, row in _rows("reset", meanings, driver=branch).items()
        },
        **_rows("reboot", {79: "it has fallen off the bus", 151: "a key was not rotated"}),
        **_rows("reboot", {168: "errors in memory that the driver needs, with ECC off"}),
        **_rows("ask", PERSON),
        **_rows("ask", {**NVLINK5, 159: "an error of the coherent link"}, driver=565),
    },
}
