# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What NVIDIA's Xid catalog says of each XID, as far as public sources had it on the day that each row names.

The buckets are the immediate actions that the catalog names for Ampere and later. What it leaves to a flow of questions
is here the least that each of its ends asks for; where only a person can answer, a person is asked. ``driver`` marks
the XIDs of which a driver with a recovery action knows more than the catalog.
"""

from __future__ import annotations

import typing as t

READ = "2026-11-24"
CATALOG = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
GUIDE = "https://docs.nvidia.com/deploy/xid-errors/working-with-xid-errors.html"
MEMORY = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html"


def _rows(action: str, meanings: t.Mapping[int, str], **more: t.Any) -> t.Dict[str, t.Any]:
    origin = {"source": more.pop("source", CATALOG), "read": READ}
    return {
        str(number): {"action": action, "meaning": meaning, **more, **origin}
        for number, meaning in meanings.items()
    }


def _each(numbers: t.Iterable[int], meaning: str) -> t.Dict[int, str]:
    return dict.fromkeys(numbers, meaning)


APPLICATION = {
    8: "",
    11: "a corrupted push buffer",
    13: "an exception of the graphics engine",
    25: "an invalid push buffer",
    31: "a memory page fault",
    45: "channels were ended early, mostly after another error",
    60: "an exception of the video processor",
    68: "an exception of the video decoder",
    69: "an exception of the graphics engine's class",
    80: "corrupted data was sent to the GPU",
    **_each((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "a copy engine's error"),
    **_each((82, 83, 84, 86, 88, 89, *range(96, 106)), "an error of a video or image engine"),
    139: "an engine's error",
}
INFORMATION = {
    14: "",
    37: "a driver's firmware error",
    38: "a driver's firmware error",
    43: "the GPU stopped processing for one application",
    44: "a fault of the graphics engine in a context switch",
    63: "a memory row was replaced",
    66: "an illegal access by a driver",
    67: "an illegal access by a driver",
    92: "many corrected memory errors",
    93: "the InfoROM was written too often",
    106: "a test",
    107: "a test",
    108: "a remote translation failed",
    121: "corrected errors on a chip-to-chip link",
    137: "an NVLink access without privilege",
    141: "",
    152: "",
    153: "",
    157: "a part could not be retired",
    160: "channels were retired",
    161: "channels could not be retired",
    162: "power smoothing engaged again",
    163: "power smoothing disengaged",
    164: "the power smoothing circuit is near its end of life",
    165: "the power smoothing circuit is at its end of life",
    171: "details of a memory error in DRAM",
    172: "details of a memory error in SRAM",
}
RESET = {
    46: "the GPU stopped processing",
    48: "a memory error that could not be corrected",
    62: "its microcontroller halted",
    64: "a memory row could not be replaced",
    74: "an NVLink failed",
    95: "a memory error that was not contained",
    110: "a security fault",
    119: "its system processor does not answer",
    120: "its system processor failed",
    136: "the training of a link failed",
    140: "memory errors that could not be corrected",
    143: "it could not be initialised",
    155: "an NVLink is down",
    156: "a defective part waits for a reset to be retired",
    158: "a fatal timeout",
}
# Those of NVLink 5 are fatal or not by details in the kernel log; each driver that has them has a recovery action.
NVLINK5 = _each((*range(144, 149), 150), "an NVLink error of which the driver knows more")

TABLE: t.Dict[str, t.Any] = {
    "as_of": READ,
    "xids": {
        **_rows("restart_application", APPLICATION),
        # A GPU that copes with these again and again is not well, though each of them ends with an application.
        **_rows("restart_application", {32: "a corrupted push buffer"}, times=4, then="reset"),
        **_rows(
            "restart_application",
            {94: "a memory error that only one application felt"},
            times=4,
            then="drain_then_reset",
            source=MEMORY,
        ),
        **_rows("none", INFORMATION),
        **_rows("reset", RESET),
        **_rows(
            "reset", {109: "a context switch timed out", 149: "an NVLink is down"}, driver=True
        ),
        **_rows("none", {154: "the driver's recovery action changed"}, source=GUIDE),
        **_rows("ask", NVLINK5, driver=True),
        **_rows("reboot", {79: "it has fallen off the bus", 151: "a key was not rotated in time"}),
        **_rows("reboot", {168: "its memory is reduced"}, driver=True),
        **_rows(
            "ask",
            {
                54: "its auxiliary power is not connected",
                78: "a vGPU could not be started",
                159: "an error of the coherent link to the processor",
            },
        ),
    },
}
