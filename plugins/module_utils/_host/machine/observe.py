# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the host shows of its IOMMU, and of guests that have its devices."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ..._base.text.kernel_parameters import split
from ..._machine.host import Host
from ..._machine.units import properties, properties_of
from ..._node.machine.facts import BUS, boot_id, gpus, lockdown, proc
from ..._node.machine.recorded import existing
from .. import pam
from ..boot import PROGRAM
from ..command_line import OFF, PT, Words
from ..iommu import UNKNOWN
from ..live import ACS, ADDRESS, NUMA_FILE, POLICIES, DesiredValues, Facts, Values, kind, pages_file
from ..memlock import FOLDER, LIMITS, UNITS, Service, limit, running
from ..state import Iommu
from .loaders import Loader, find

ACPI = "/sys/firmware/acpi/tables"
IOMMU_TABLES = ("DMAR", "IVRS", "IORT")  # of Intel, AMD and Arm
GROUPS = "/sys/kernel/iommu_groups"
NOTED = "/run/gpu-node/reboot-required"
VFIO = "/sys/bus/pci/drivers/vfio-pci"
LIBVIRT = "/etc/libvirt/qemu"
KVM = "anon_inode:kvm-vm"
KVM_USERS = tuple(f"/sys/module/{module}/refcnt" for module in ("kvm_intel", "kvm_amd"))
TUNED = "/etc/tuned/active_profile"


def iommu(host: Host, added: Words) -> t.Tuple[t.Optional[Loader], Iommu]:
    """Return the boot loader, and what the kernel is booted with and will be; ``added`` is what was added to that."""
    loader, written, why = find(host)
    name, replaces = (loader.name, loader.replaces) if loader else ("", False)
    observed = booted(host)._replace(loader=name, why=why, replaces=replaces, written=written)
    return loader, observed._replace(lost=loader is not None and not loader.keeps(added))


def booted(host: Host) -> Iommu:
    """Return what the kernel is booted with."""
    tables = set(host.listdir(ACPI))
    return Iommu(
        running=split(host.read("/proc/cmdline") or ""),
        in_force=_in_force(host),
        noted=tuple((host.read(NOTED) or "").splitlines()),
        boot=boot_id(host),
        none=bool(tables) and not tables.intersection(IOMMU_TABLES),
    )


def _in_force(host: Host) -> str:
    if not host.listdir(GROUPS):
        return OFF
    types = [host.read(f"{BUS}/{gpu.address}/iommu_group/type") for gpu in gpus(host)]
    known = {name.strip() for name in types if name}
    return UNKNOWN if not known else PT if known == {"identity"} else "on"


def guests(host: Host) -> t.Tuple[str, ...]:
    """Return guests that have devices of this host, or run, and devices that are set aside for some."""
    addresses = filter(ADDRESS.fullmatch, host.listdir(VFIO))
    reasons = [f"{address} has the driver vfio-pci" for address in addresses]
    for name in host.listdir(LIBVIRT):
        if name.endswith(".xml") and "<hostdev" in (host.read(f"{LIBVIRT}/{name}") or ""):
            reasons.append(f"libvirt's guest {name[: -len('.xml')]} has a device")
    for pid in host.listdir("/proc") if _may_run_guests(host) else ():
        folder = f"/proc/{pid}/fd"
        names = host.listdir(folder) if pid.isdigit() else ()
        if any(host.readlink(f"{folder}/{name}") == KVM for name in names):
            reasons.append(f"process {pid} ({proc(host, pid, 'comm').strip()}) runs a guest")
    return tuple(reasons)


def _may_run_guests(host: Host) -> bool:
    """Return whether guests may run, each of which uses KVM's module: only then are open files of processes read."""
    users = [host.read(path) for path in KVM_USERS]
    return any(user is not None and user.strip() != "0" for user in users) or (
        users == [None, None] and host.exists("/dev/kvm")
    )


def values(host: Host, asked: DesiredValues, record: Values) -> t.Dict[str, str]:
    """Return the values of the kernel that are asked for or were set here, of those that there are."""
    names = [name for name in record if kind(name) != ACS]
    names += [NUMA_FILE] if asked.numa else []
    names += [pages_file(page) for page in asked.pages]
    if asked.governor:
        names += [f"{POLICIES}/{name}/scaling_governor" for name in host.listdir(POLICIES)]
    texts = {name: host.read(name) for name in names}
    result = {name: text.strip() for name, text in texts.items() if text}
    if asked.acs or any(kind(name) == ACS for name in record):
        for line in program(host, "acs_show").splitlines():
            address, _space, control = line.partition(" ")
            result[address] = control
    return result


def facts(host: Host, asked: DesiredValues) -> Facts:
    """Return the facts that decide about the desired values."""
    locked = lockdown(host)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.M)
    tuned = (host.read(TUNED) or "").strip() if asked.governor else ""
    if tuned and properties(host, "tuned.service", "ActiveState").get("ActiveState") != "active":
        tuned = ""
    return Facts(
        guests=guests(host) if asked.acs else (),
        lockdown=locked if locked and locked != "none" else "",
        tuned=tuned,
        memory=int(memory[1]) if memory else 0,
    )


def program(host: Host, *args: str) -> str:
    """Run the program that the unit runs at boot, and return what it prints."""
    return host.run(["/bin/sh", "-c", PROGRAM, "host", *args]).out


def services(host: Host) -> t.Tuple[Service, ...]:
    """Return the services that start containers, jobs and sessions, of those that there are."""
    names = ("Id", "LoadState", "LimitMEMLOCK", "MainPID", "NeedDaemonReload")
    by_name = {}
    for has in properties_of(host, UNITS, *names).values():
        if has.get("LoadState") == "loaded":
            runs = running(proc(host, has["MainPID"], "limits"))
            unread = has["NeedDaemonReload"] == "yes"
            by_name[has["Id"]] = Service(has["Id"], limit(has["LimitMEMLOCK"]), runs, unread)
    return tuple(by_name.values())  # ssh.service may be sshd.service too


def limits_of_others(host: Host) -> t.Dict[str, str]:
    """Return the texts of all files of limits but ours."""
    folder = posixpath.dirname(LIMITS)
    names = [f"{folder}/{name}" for name in host.listdir(folder) if name.endswith(".conf")]
    return existing(host, [f"{FOLDER}/limits.conf", *(name for name in names if name != LIMITS)])


def logins_without_limits(host: Host) -> t.Tuple[str, ...]:
    """Return the files of PAM by which sessions get no limits."""
    paths = {
        name: f"{folder}/{name}"
        for folder in reversed(pam.FOLDERS)
        for name in host.listdir(folder)
    }
    texts = {name: host.read(path) or "" for name, path in paths.items()}
    return tuple(paths[name] for name in pam.services_without_limits(texts))
