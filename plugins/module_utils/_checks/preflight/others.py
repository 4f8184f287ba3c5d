# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What other tools run on a node, or have left there, that a bring-up would not get along with.

The folder is where the GPU operator's driver container has its root, and the unit is mig-parted's (its
deployments/systemd). Device plugins name their sockets after the resource; Google's calls its own nvidiaGPU.
"""

from __future__ import annotations

import re

from .problems import Problem

SOCKETS = "/var/lib/kubelet/device-plugins"
SOCKET = re.compile(r"nvidia-(?P<name>.+)\.sock|nvidiaGPU.*\.sock")
DRIVER = "/run/nvidia/driver"
PROGRAM = f"{DRIVER}/usr/bin/nvidia-smi"
MIG_MANAGER = "nvidia-mig-manager.service"
MIG_MANAGER_ENABLED = f"/etc/systemd/system/multi-user.target.wants/{MIG_MANAGER}"
MIG_MANAGER_WARNING = (
    f"{MIG_MANAGER} is enabled, and makes a MIG layout of its own at the next boot. Next step: systemctl disable"
    f" {MIG_MANAGER}, as gpu-mig.service makes the layout of mig_config"
)
PAGES = "docs/migration has the commands"


def resource(socket: str) -> str:
    """Return the resource that a device plugin's socket is for, empty where it is none of NVIDIA's."""
    found = SOCKET.fullmatch(socket)
    return f"nvidia.com/{found['name'] or 'gpu'}" if found else ""


def plugin(socket: str, user: str) -> Problem:
    """Return the problem of a device plugin of somebody else; ``user`` is its process, empty if that is not known."""
    who = f"process {user} listens" if user else "it listens"
    return Problem(
        "",
        f"another device plugin serves {resource(socket)} on this node: {who} on {SOCKETS}/{socket}",
        f"take it off this node: {PAGES}. Or leave device_plugin out of gpu_nodes_components",
    )


def driver(source: str) -> Problem:
    """Return the problem of a driver that a container has brought, where another is to be installed."""
    return Problem(
        "nvidia_driver_source",
        f"nvidia_driver_source: {source!r} is not possible: a container has its driver in {DRIVER}, as NVIDIA's"
        " GPU operator runs it",
        "take the operator off the node: kubectl label node NAME nvidia.com/gpu.deploy.operands=false. Or leave"
        " driver out of gpu_nodes_components",
    )
