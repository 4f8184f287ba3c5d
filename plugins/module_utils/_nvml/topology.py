# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How GPUs are connected with each other: PCIe, and NVLink. To be used while NVML is open."""

from __future__ import annotations

import typing as t

from .._core.gpu import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Gpu, Links
from .calls import INVALID_ARGUMENT, doing, pynvml, text


@doing("reading how near two GPUs are")
def level(one: Gpu, other: Gpu) -> int:
    """Return NVML's level of their nearest common ancestor: 0 is one board, 50 two processors."""
    handles = (pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid) for gpu in (one, other))
    return int(pynvml.nvmlDeviceGetTopologyCommonAncestor(*handles))


@doing("reading a GPU's NVLinks")
def links(gpu: Gpu) -> Links:
    """Return a GPU's NVLinks."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
    switch = 0
    peers: t.Dict[str, int] = {}
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if not pynvml.nvmlDeviceGetNvLinkState(handle, number):
                continue
            kind = pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number)
            if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                switch += 1
            elif kind == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU:
                remote = pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number)
                address = text(remote.busId).lower()[-12:]
                peers[address] = peers.get(address, 0) + 1
        except pynvml.NVMLError as error:
            if error.value not in (NOT_SUPPORTED, INVALID_ARGUMENT, FUNCTION_NOT_FOUND):
                raise
            break  # there are no more
    return Links(switch, peers)
