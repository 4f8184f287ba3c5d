# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node has besides its GPUs, and what containers' CDI devices are called. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

VENDOR: Final = "k8s.device-plugin.nvidia.com"
KIND: Final = f"{VENDOR}/gpu"
IMEX_FOLDER: Final = "/dev/nvidia-caps-imex-channels"


@dataclass(frozen=True)
class HostState:
    """What else the node has at the moment: device nodes, IMEX channels and CDI devices.

    ``cdi_added`` are the qualified names of CDI devices of other classes than gpu. ``cdi_lacking`` are by their
    names those of which a file is gone, and which.
    """

    control_nodes: tuple[str, ...] = ()
    imex_channels: tuple[str, ...] = ()
    cdi_devices: frozenset[str] = frozenset()
    cdi_added: frozenset[str] = frozenset()
    cdi_lacking: Mapping[str, str] = field(default_factory=dict)
