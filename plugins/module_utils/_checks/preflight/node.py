# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node must have before anything is installed on it, and what other tools run there, or have left there.

DRIVER_ROOT is where the GPU operator's driver container has its root, and the unit is mig-parted's (its
deployments/systemd). Device plugins name their sockets after the resource; Google's calls its own nvidiaGPU.
"""

from __future__ import annotations

import re
import typing as t

from ..._base.space import Space
from .problems import Problem

MIB = 1 << 20
# Debian's driver 550 with DKMS: 467 MB in /usr after 104 MB of packages in /var.
DRIVER, PACKAGES = 600 * MIB, 200 * MIB
SOURCES = {
    "apt": ("/etc/apt/sources.list", "/etc/apt/sources.list.d"),
    # dnf 5 reads the others too (dnf5.conf, reposdir).
    "dnf": ("/etc/yum.repos.d", "/etc/distro.repos.d", "/usr/share/dnf5/repos.d"),
    "zypper": ("/etc/zypp/repos.d", "/etc/zypp/services.d"),
}
SOCKETS = "/var/lib/kubelet/device-plugins"
SOCKET = re.compile(r"nvidia-(?P<name>.+)\.sock|nvidiaGPU.*\.sock")
DRIVER_ROOT = "/run/nvidia/driver"
PROGRAM = f"{DRIVER_ROOT}/usr/bin/nvidia-smi"
MIG_MANAGER = "nvidia-mig-manager.service"
MIG_MANAGER_ENABLED = f"/etc/systemd/system/multi-user.target.wants/{MIG_MANAGER}"
MIG_MANAGER_WARNING = (
    f"{MIG_MANAGER} is enabled, and makes a MIG layout of its own at the next boot. Next step: systemctl disable"
    f" {MIG_MANAGER}, as gpu-mig.service makes the layout of mig_config"
)
DEFAULT_TARGET = "/etc/systemd/system/default.target"
MULTI_USER = "multi-user.target"
GRAPHICAL = "graphical.target"  # requires that, and is the default without the link
PAGES = "docs/migration has the commands"


class Need(t.NamedTuple):
    """What will be written: where, how many bytes, and what it is. No bytes: whatever it is, it must be writable."""

    folder: str
    size: int
    purpose: str


def lacking(needs: t.Sequence[Need], spaces: t.Mapping[str, Space]) -> t.List[Problem]:
    """Return what has no room, by file system, and what can't be written at all."""
    result = []
    for device in dict.fromkeys(spaces[need.folder].device for need in needs):
        here = [need for need in needs if spaces[need.folder].device == device]
        space = spaces[here[0].folder]
        folders = ", ".join(dict.fromkeys(need.folder for need in here))
        total = sum(need.size for need in here)
        if space.read_only:
            hint = "mount it writable"
            result.append(Problem("", f"{folders}: the file system is read-only", hint))
        elif space.free < total:
            have, lacks = space.free // MIB, total // MIB
            text = f"{folders}: {have} MiB are free, and {lacks} MiB are needed: "
            text += ", ".join(
                f"{need.size // MIB} for {need.purpose}" for need in here if need.size
            )
            result.append(Problem("", text, "free space there, or mount a larger file system"))
    return result


def initramfs(sizes: t.Sequence[int]) -> int:
    """Return the bytes that /boot needs: a new initramfs is written beside the one that it replaces."""
    return max(sizes, default=0) * 11 // 10


def no_sources(manager: str) -> Problem:
    """Return the problem of a node that knows no place to take packages from."""
    text = f"{manager} has no package source: there is nothing in {' or '.join(SOURCES[manager])}"
    return Problem("", text, "give the node the sources of its distribution, or of a mirror")


def too_old(title: str) -> Problem:
    """Return the problem of a system that is older than what the units need."""
    return Problem(
        "",
        f"{title} is not supported: its systemd is 219, and the units need the folders of 235",
        "install one of the systems of docs/reference/systems.md on the node",
    )


NO_ROOT = Problem(
    "", "the modules need root, and run as another user", "set become: true, for a user with sudo"
)


def resource(socket: str) -> str:
    """Return the resource that a device plugin's socket is for, empty where it is none of NVIDIA's."""
    match = SOCKET.fullmatch(socket)
    return f"nvidia.com/{match['name'] or 'gpu'}" if match else ""


def plugin(socket: str, user: str) -> Problem:
    """Return the problem of a device plugin of somebody else; ``user`` is its process, empty if that is not known."""
    subject = f"process {user} listens" if user else "it listens"
    return Problem(
        "",
        f"another device plugin serves {resource(socket)} on this node: {subject} on {SOCKETS}/{socket}",
        f"take it off this node: {PAGES}. Or leave device_plugin out of gpu_nodes_components",
    )


def driver(source: str) -> Problem:
    """Return the problem of a driver that a container has brought, where another is to be installed."""
    return Problem(
        "nvidia_driver_source",
        f"nvidia_driver_source: {source!r} is not possible: a container has its driver in {DRIVER_ROOT}, as NVIDIA's"
        " GPU operator runs it",
        "take the operator off the node: kubectl label node NAME nvidia.com/gpu.deploy.operands=false. Or leave"
        " driver out of gpu_nodes_components",
    )


def boots_without_services(target: str) -> str:
    """Return the warning of a node whose default target does not start what multi-user.target does."""
    return (
        f"the node boots into {target}, which does not start {MULTI_USER}: after the next boot neither the container "
        f"runtime nor the services of the GPUs run. Next step: systemctl set-default {MULTI_USER}"
    )
