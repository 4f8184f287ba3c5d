# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Event sets."""

from __future__ import annotations

import struct

from ..call import Call, api
from ..codes import INVALID_ARGUMENT, TIMEOUT, NvError
from ..handles import GPU, Handle, encode

SINGLE_BIT_ECC, DOUBLE_BIT_ECC, XID = 1, 2, 8
SIMULATED = SINGLE_BIT_ECC | DOUBLE_BIT_ECC | XID
# What an H100 says with branch 580. Of those before it is not known.
SUPPORTED, SINCE = 0xFF9F, 580


@api("nvmlEventSetCreate")
def create(call: Call) -> None:
    call.put_number(0, call.engine.new_event_set(), "Q")


@api("nvmlEventSetFree")
def free(call: Call) -> None:
    number = call.engine.event_set_number(call.words[0])
    del call.engine.event_sets[number]
    call.engine.lock.notify_all()


@api("nvmlDeviceGetSupportedEventTypes")
def supported(call: Call) -> None:
    call.gpu()
    call.put_number(1, _supported(call), "Q")


def _supported(call: Call) -> int:
    return SUPPORTED if call.engine.branch() >= SINCE else SIMULATED


@api("nvmlDeviceRegisterEvents")
def register(call: Call) -> None:
    gpu = call.gpu(mig_too=False)
    number = call.engine.event_set_number(call.words[2])
    if call.words[1] & ~_supported(call):
        raise NvError(INVALID_ARGUMENT)
    masks = call.engine.event_sets[number].masks
    masks[gpu.board.uuid] = masks.get(gpu.board.uuid, 0) | call.words[1]


@api("nvmlEventSetWait", "nvmlEventSetWait_v2")
def wait(call: Call) -> None:
    number = call.engine.event_set_number(call.words[0])
    call.need(1)
    event = call.engine.wait(number, call.u32(2) / 1000)
    if event is None:
        raise NvError(TIMEOUT)
    index = call.engine.find(event.gpu).index
    call.put(
        1,
        struct.pack(
            "<QQQII", encode(Handle(GPU, index)), event.type, event.data, event.gi, event.ci
        ),
    )
