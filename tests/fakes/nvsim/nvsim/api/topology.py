# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How GPUs are connected: PCIe with two NUMA nodes, and NVLink where the product has it.

NVLinks end at switches, unless the scene's director has cabled GPUs with each other.
"""

from __future__ import annotations

import struct

import pynvml

from ..call import Call, api
from ..codes import INVALID_ARGUMENT, NOT_SUPPORTED, NvError
from ..handles import GPU, Handle, encode
from ..state import Gpu
from .system import at_address

SINGLE_SWITCH, SAME_NODE, SYSTEM = 10, 40, 50
LEVELS = (0, SINGLE_SWITCH, 20, 30, SAME_NODE, SYSTEM)
SCOPES = 2  # of affinity: a node's, a socket's
LARGEST_SET = 1 << 14  # words
MOST_LINKS = 18  # NVML_NVLINK_MAX_LINKS of the branches up to 570
REMOTE_GPU, REMOTE_SWITCH = 0, 2
# nvmlNvlinkVersion_t by architecture: 2.0 of Volta, 3.0 of Ampere, 4.0 of Hopper, 5.0 of Blackwell.
LINK_VERSIONS = {5: 2, 7: 4, 9: 6, 10: 7}


def ancestor(one: Gpu, other: Gpu) -> int:
    """Return the level of the nearest common ancestor of two GPUs."""
    if one.board.numa != other.board.numa:
        return SYSTEM
    return SINGLE_SWITCH if one.index // 2 == other.index // 2 else SAME_NODE


@api("nvmlDeviceGetTopologyCommonAncestor")
def common_ancestor(call: Call) -> None:
    call.put_number(2, ancestor(call.gpu(0), call.gpu(1)))


@api("nvsimCommonAncestorByPciBusId")
def common_ancestor_by_pci(call: Call) -> None:
    """Answer what nvidia-smi asks for by a private table, with numbers of its own: 0 PIX, 1 PXB .. 4 SYS."""
    call.put_number(2, ancestor(at_address(call, 0), at_address(call, 1)) // 10 - 1)


@api("nvmlDeviceGetTopologyNearestGpus")
def nearest(call: Call) -> None:
    gpu, level = call.gpu(), call.u32(1)
    if level not in LEVELS or (call.number_in(2) and not call.words[3]):
        raise NvError(INVALID_ARGUMENT)
    found = [
        struct.pack("<Q", encode(Handle(GPU, other.index)))
        for other in call.engine.store.gpus()
        if other.index != gpu.index and ancestor(gpu, other) <= level
    ]
    call.put_list(2, 3, found, sizing_ok=True)


@api("nvmlDeviceGetP2PStatus")
def p2p(call: Call) -> None:
    call.gpu(0), call.gpu(1)
    call.below(2, pynvml.NVML_P2P_CAPS_INDEX_UNKNOWN)
    call.put_number(3, 0)


@api("nvmlDeviceGetCpuAffinity")
def cpu_affinity(call: Call) -> None:
    numa = call.gpu().board.numa
    size(call)
    words = [0xFFFFFFFF << (32 * numa) & 0xFFFFFFFFFFFFFFFF] + [0] * (call.u32(1) - 1)
    call.put(2, struct.pack(f"<{call.u32(1)}Q", *words[: call.u32(1)]))


def size(call: Call) -> None:
    """Refuse a set of no size, or one that nobody could have."""
    if not 0 < call.u32(1) <= LARGEST_SET:
        raise NvError(INVALID_ARGUMENT)


@api("nvmlDeviceGetCpuAffinityWithinScope")
def cpu_affinity_within(call: Call) -> None:
    call.below(3, SCOPES)
    cpu_affinity(call)


@api("nvmlDeviceGetMemoryAffinity")
def memory_affinity(call: Call) -> None:
    call.gpu()
    size(call)
    call.below(3, SCOPES)
    words = [1 << call.gpu().board.numa] + [0] * (call.u32(1) - 1)
    call.put(2, struct.pack(f"<{call.u32(1)}Q", *words))


def links_of(call: Call, gpu: Gpu, *, to_switches: bool = False) -> int:
    """Return how many NVLinks a GPU has, or how many of them end at switches."""
    if to_switches and (call.engine.cables or len(call.engine.store.gpus()) < 2):
        return 0
    return gpu.product.nvlinks


def link(call: Call) -> Gpu:
    """Return a GPU that has the link of argument 1.

    nvidia-smi asks for as many as any product has, and gives up where one of them is no valid argument.
    """
    gpu = call.gpu(mig_too=False)
    number = call.below(1, MOST_LINKS)
    if number >= gpu.product.nvlinks or len(call.engine.store.gpus()) < 2:
        raise NvError(NOT_SUPPORTED)
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
    call.put_number(2, LINK_VERSIONS.get(link(call).product.architecture, 1))


@api("nvmlDeviceGetNvLinkCapability")
def link_capability(call: Call) -> None:
    link(call)
    call.below(2, pynvml.NVML_NVLINK_CAP_COUNT)
    call.put_number(3, 1)


@api("nvmlDeviceGetNvLinkErrorCounter")
def link_errors(call: Call) -> None:
    link(call)
    call.below(2, pynvml.NVML_NVLINK_ERROR_COUNT)
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
