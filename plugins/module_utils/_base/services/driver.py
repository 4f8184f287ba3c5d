# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The services of the driver, which the device plugin knows too."""

from __future__ import annotations

SERVICE = "nvidia-persistenced.service"
FABRIC_SERVICE = "nvidia-fabricmanager.service"
DEVICE_NODES_UNIT = "gpu-device-nodes.service"
DEVICE_NODES_PROGRAM = "/etc/gpu-node/device-nodes"
MAKE_NODES = f"systemctl restart {DEVICE_NODES_UNIT}, or run gpu.node.nvidia_driver"
