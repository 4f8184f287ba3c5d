# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which device nodes belong to a GPU, to a MIG device, and to every user of the driver."""

from __future__ import annotations

import re
import typing as t

from .errors import NodeError
from .gpu import Gpu, MigDevice

CONTROL_NODES = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
)
CAPS_FOLDER = "/dev/nvidia-caps"
MINOR = re.compile("[0-9]{1,9}")
MIG_MINORS = "/proc/driver/nvidia-caps/mig-minors"


def parse_minors(text: str) -> t.Dict[str, int]:
    """Read the driver's list of capabilities: lines such as ``gpu0/gi1/ci0/access 13``."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and MINOR.fullmatch(pair[1])}


def gpu_nodes(gpu: Gpu) -> t.Tuple[str, ...]:
    """Return the nodes of a whole GPU."""
    return (f"/dev/nvidia{gpu.minor}",)


def mig_nodes(gpu: Gpu, device: MigDevice, minors: t.Mapping[str, int]) -> t.Tuple[str, ...]:
    """Return the nodes of a MIG device: the GPU's, and the capabilities of its two instances."""
    instance = f"gpu{gpu.minor}/gi{device.gi_id}"
    names = (f"{instance}/access", f"{instance}/ci{device.ci_id}/access")
    missing = [name for name in names if name not in minors]
    if missing:
        raise NodeError(
            f"MIG device {device.uuid} has no capability nodes",
            cause=f"the driver does not list {missing[0]}",
        )
    return (*gpu_nodes(gpu), *(f"{CAPS_FOLDER}/nvidia-cap{minors[name]}" for name in names))
