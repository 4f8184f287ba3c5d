# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs and MIG devices as values, with the driver's own numbering of capabilities."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Gpu, MigDevice


def gpu(index: int, *, minor: t.Optional[int] = None, mig: bool = False) -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-{index:08x}-aaaa-bbbb-cccc-0123456789ab",
        name="NVIDIA A100-SXM4-40GB",
        pci_bus_id=f"0000:{index + 1:02x}:00.0",
        minor=index if minor is None else minor,
        memory_total=40 << 30,
        compute_capability=(8, 0),
        mig_capable=True,
        mig_current=mig,
        mig_pending=mig,
        pci_device_id=0x20B0,
    )


def mig(parent: Gpu, index: int, gi: t.Optional[int] = None) -> MigDevice:
    gi_id = index + 7 if gi is None else gi
    return MigDevice(
        uuid=f"MIG-{parent.index:08x}-{gi_id:04x}-bbbb-cccc-0123456789ab",
        gpu_uuid=parent.uuid,
        gpu_index=parent.index,
        mig_index=index,
        gi_id=gi_id,
        ci_id=0,
        profile="1g.5gb",
        memory_total=5 << 30,
    )


def minors_text(*minors: int) -> str:
    """Return the driver's list of capabilities for GPUs with these minors."""
    lines = ["config 1", "monitor 2"]
    for minor in minors:
        for gi in range(16):
            first = 3 + minor * 160 + gi * 10
            lines.append(f"gpu{minor}/gi{gi}/access {first}")
            lines += [f"gpu{minor}/gi{gi}/ci{ci}/access {first + 1 + ci}" for ci in range(8)]
    return "\n".join(lines) + "\n"
