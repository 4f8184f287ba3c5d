# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the host shows of its IOMMU, and of guests that have its devices."""

from __future__ import annotations

import re
import typing as t

from ..._machine.host import Host
from ..._node.machine.facts import BOOT_ID, BUS, gpus, proc
from ..command_line import OFF, PT
from ..iommu import UNKNOWN
from ..state import Iommu
from .loaders import Loader, find

GROUPS = "/sys/kernel/iommu_groups"
NOTED = "/run/gpu-node/reboot-required"
VFIO = "/sys/bus/pci/drivers/vfio-pci"
LIBVIRT = "/etc/libvirt/qemu"
KVM = "anon_inode:kvm-vm"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def iommu(host: Host) -> t.Tuple[t.Optional[Loader], Iommu]:
    """Return the boot loader, and what the kernel is booted with and will be."""
    loader, written, why = find(host)
    name, replaces = (loader.name, loader.replaces) if loader else ("", False)
    found = booted(host)._replace(loader=name, why=why, replaces=replaces, written=written)
    return loader, found


def booted(host: Host) -> Iommu:
    """Return what the kernel is booted with."""
    return Iommu(
        running=tuple((host.read("/proc/cmdline") or "").split()),
        in_force=_in_force(host),
        noted=tuple((host.read(NOTED) or "").splitlines()),
        boot=(host.read(BOOT_ID) or "").strip(),
    )


def _in_force(host: Host) -> str:
    if not host.listdir(GROUPS):
        return OFF
    types = [host.read(f"{BUS}/{one.address}/iommu_group/type") for one in gpus(host)]
    known = {one.strip() for one in types if one}
    return UNKNOWN if not known else PT if known == {"identity"} else "on"


def guests(host: Host) -> t.Tuple[str, ...]:
    """Return guests that have devices of this host, or run, and devices that are set aside for some."""
    found = [
        f"{one} has the driver vfio-pci" for one in host.listdir(VFIO) if ADDRESS.fullmatch(one)
    ]
    for name in host.listdir(LIBVIRT):
        if name.endswith(".xml") and "<hostdev" in (host.read(f"{LIBVIRT}/{name}") or ""):
            found.append(f"libvirt's guest {name[: -len('.xml')]} has a device")
    for pid in host.listdir("/proc"):
        folder = f"/proc/{pid}/fd"
        if pid.isdigit() and any(
            host.readlink(f"{folder}/{one}") == KVM for one in host.listdir(folder)
        ):
            found.append(f"process {pid} ({proc(host, pid, 'comm').strip()}) runs a guest")
    return tuple(found)
