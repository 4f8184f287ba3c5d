# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How GPUs are connected: PCIe with two NUMA nodes, and NVLink where the product has it.

NVLinks end at switches, unless the scene's director has cabled GPUs with each other.
"""

from __future__ import annotations

import ctypes
import struct
import uuid

import pynvml

from ..call import Call, api
from ..codes import INVALID_ARGUMENT, NOT_SUPPORTED, NvError
from ..handles import GPU, Handle, encode
from ..state import Gpu

SINGLE_SWITCH, SAME_NODE, SYSTEM = 10, 40, 50
REMOTE_GPU, REMOTE_SWITCH = 0, 2


def ancestor(one: Gpu, other: Gpu) -> int:
    """Return the level of the nearest common ancestor of two GPUs."""
    if one.board.numa != other.board.numa:
        return SYSTEM
    return SINGLE_SWITCH if one.index // 2 == other.index // 2 else SAME_NODE


@api("nvmlDeviceGetTopologyCommonAncestor")
def common_ancestor(call: Call) -> None:
    call.put_number(2, ancestor(call.gpu(0), call.gpu(1)))


@api("nvmlDeviceGetTopologyNearestGpus")
def nearest(call: Call) -> None:
    gpu, level = call.gpu(), call.u32(1)
    found = [
        struct.pack("<Q", encode(Handle(GPU, other.index)))
        for other in call.engine.store.gpus()
        if other.index != gpu.index and ancestor(gpu, other) <= level
    ]
    call.put_list(2, 3, found, sizing_ok=True)


@api("nvmlDeviceGetP2PStatus")
def p2p(call: Call) -> None:
    call.gpu(0), call.gpu(1)
    call.put_number(3, 0)


@api("nvmlDeviceGetCpuAffinity", "nvmlDeviceGetCpuAffinityWithinScope")
def cpu_affinity(call: Call) -> None:
    numa = call.gpu().board.numa
    words = [0xFFFFFFFF << (32 * numa) & 0xFFFFFFFFFFFFFFFF] + [0] * (call.u32(1) - 1)
    call.put(2, struct.pack(f"<{call.u32(1)}Q", *words[: call.u32(1)]))


@api("nvmlDeviceGetMemoryAffinity")
def memory_affinity(call: Call) -> None:
    words = [1 << call.gpu().board.numa] + [0] * (call.u32(1) - 1)
    call.put(2, struct.pack(f"<{call.u32(1)}Q", *words))


def link(call: Call) -> Gpu:
    """Return a GPU that has the link of argument 1."""
    gpu = call.gpu(mig_too=False)
    if not gpu.product.nvlinks or len(call.engine.store.gpus()) < 2:
        raise NvError(NOT_SUPPORTED)
    if call.u32(1) >= gpu.product.nvlinks:
        raise NvError(INVALID_ARGUMENT)
    return gpu


def peer(call: Call) -> Gpu | None:
    """Return the GPU at the other end of a link; None where that is a switch, or nothing."""
    gpu, number = link(call), call.u32(1)
    ends = [end for start, end in call.engine.cables if start == gpu.board.uuid]
    return call.engine.find(ends[number]) if number < len(ends) else None


@api("nvmlDeviceGetNvLinkState")
def link_state(call: Call) -> None:
    link(call)
    call.put_number(2, int(not call.engine.cables or peer(call) is not None))


@api("nvmlDeviceGetNvLinkVersion")
def link_version(call: Call) -> None:
    call.put_number(2, max(1, link(call).product.architecture - 4))


@api("nvmlDeviceGetNvLinkCapability")
def link_capability(call: Call) -> None:
    link(call)
    call.put_number(3, 1)


@api("nvmlDeviceGetNvLinkErrorCounter")
def link_errors(call: Call) -> None:
    link(call)
    call.put_number(3, 0, "Q")


@api("nvmlDeviceGetNvLinkRemoteDeviceType")
def link_remote_type(call: Call) -> None:
    link(call)
    call.put_number(2, REMOTE_SWITCH if peer(call) is None else REMOTE_GPU)


@api("nvmlDeviceGetNvLinkRemotePciInfo", "nvmlDeviceGetNvLinkRemotePciInfo_v2")
def link_remote(call: Call) -> None:
    link(call)
    other = peer(call)
    if other is not None:
        full = f"0000{other.board.pci}".upper().encode()
        call.put_struct(2, pynvml.nvmlPciInfo_t(busId=full))
        return
    address = f"00000000:{0xC0 + call.u32(1) % 4:02X}:00.0".encode()
    call.put_struct(
        2, pynvml.nvmlPciInfo_t(busId=address, bus=0xC0 + call.u32(1) % 4, pciDeviceId=0x22A310DE)
    )


@api("nvmlDeviceGetGpuFabricInfoV")
def fabric_info(call: Call) -> None:
    gpu = call.gpu(mig_too=False)
    if gpu.board.uuid not in call.engine.cliques:
        raise NvError(NOT_SUPPORTED)
    cluster, clique = call.engine.cliques[gpu.board.uuid]
    call.put_versioned(
        1,
        pynvml.c_nvmlGpuFabricInfo_v2_t,
        2,
        clusterUuid=(ctypes.c_uint8 * 16)(*uuid.UUID(cluster).bytes),
        cliqueId=clique,
        state=pynvml.NVML_GPU_FABRIC_STATE_COMPLETED,
    )
