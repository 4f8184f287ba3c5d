# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Facts of the node without NVML: the PCI bus, the loaded driver, and files of processes."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import NodeError
from ..._base.gpu import PciDevice, nvidia_device
from ..._machine.host import Host
from ..._machine.linker import Linker
from ..gpu_record import PATH, Gpus, load

DRIVER_FIRST = "bring up the driver first (gpu.node.nvidia_driver), then run again"
BUS = "/sys/bus/pci/devices"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# The kernel makes this folder when it loads the module, and never gives one the inode of the folder before it.
MODULE = "/sys/module/nvidia"
LOCKDOWN = "/sys/kernel/security/lockdown"
LOCKDOWN_MODE = re.compile(r"\[(\w+)\]")
CONNECTX_7 = ["0x15b3", "0x1021"]
LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d+\.\d+[\d.]*)")


def os_release(host: Host) -> t.Dict[str, str]:
    """Return the fields of /etc/os-release."""
    text = host.read("/etc/os-release") or ""
    pairs = (line.split("=", 1) for line in text.split("\n") if "=" in line)
    return {key: value.strip().strip("\"'") for key, value in pairs}


def pci_devices(host: Host) -> t.List[PciDevice]:
    """Return NVIDIA's devices on the bus, by address."""
    devices = []
    for address in host.listdir(BUS):
        if (host.read(f"{BUS}/{address}/vendor") or "").strip() == "0x10de":
            names = ("vendor", "device", "class", "numa_node")
            files = {name: host.read(f"{BUS}/{address}/{name}") for name in names}
            devices.append(nvidia_device(address, files))
    return [device for device in devices if device is not None]


def bridges(host: Host) -> t.List[str]:
    """Return the ConnectX devices through which NVSwitches are managed that are not on the bus themselves.

    NVSwitches of Blackwell are not. An ordinary ConnectX-7 lacks the mark in its product data.
    """
    result = []
    for address in host.listdir(BUS):
        device = f"{BUS}/{address}"
        ids = [(host.read(f"{device}/{name}") or "").strip() for name in ("vendor", "device")]
        if ids != CONNECTX_7:
            continue
        try:
            data = host.read_bytes(f"{device}/vpd") or b""
        except NodeError:
            continue  # some firmware refuses to have it read
        result += [address] if b"SW_MNG" in data else []
    return result


def gpus(host: Host) -> t.List[PciDevice]:
    """Return the GPUs on the bus."""
    return [pci_device for pci_device in pci_devices(host) if pci_device.kind == "gpu"]


def machine(host: Host) -> str:
    """Return the identity of this machine, which differs from others of the same image; empty without cloud-init."""
    return (host.read("/var/lib/cloud/data/instance-id") or "").strip()


def recorded_gpus(host: Host, there: t.Iterable[str], meant: int) -> Gpus:
    """Return the GPUs of the last bring-up, with those that are there and how many the user expects.

    Raises:
        NodeError: if the record is damaged.
    """
    return Gpus(load(host.read(PATH), machine(host)), tuple(there), meant)


def lockdown(host: Host) -> t.Optional[str]:
    """Return the kernel's lockdown: none, integrity or confidentiality; None if it can't be read."""
    mode = LOCKDOWN_MODE.search(host.read(LOCKDOWN) or "")
    return mode[1] if mode else None


def boot_id(host: Host) -> str:
    """Return the ID of this boot, empty if the kernel does not tell."""
    return (host.read(BOOT_ID) or "").strip()


def driver_load(host: Host) -> str:
    """Return the identity of this load of the driver, which no other load or boot has; empty if none is loaded."""
    loaded = host.status(MODULE)
    return f"{boot_id(host)}/{loaded.inode}" if loaded is not None else ""


def without_nvml(host: Host) -> str:
    """Return the next step if NVML does not answer."""
    if gpus(host):
        return DRIVER_FIRST
    return f"{DRIVER_FIRST}; but the PCI bus shows no NVIDIA GPU, without which there is nothing to do here"


def proc(host: Host, pid: str, name: str) -> str:
    """Return a file of a process, empty if the process has ended."""
    try:
        return host.read(f"/proc/{pid}/{name}") or ""
    except NodeError:
        return ""


def library_versions(host: Host) -> t.Tuple[str, ...]:
    """Return the versions of libnvidia-ml in the linker's folders and those of packages."""
    names = (path.rpartition("/")[2] for path in library_files(host))
    return tuple(sorted({match[1] for match in map(LIBRARY.fullmatch, names) if match}))


def library_files(host: Host) -> t.Tuple[str, ...]:
    """Return the paths of libnvidia-ml in all versions, in the linker's folders and those of packages."""
    folders = Linker(host).folders(LIBRARY.fullmatch)
    paths = {
        f"{folder}/{name}"
        for folder in folders
        for name in filter(LIBRARY.fullmatch, host.listdir(folder))
    }
    return tuple(sorted(paths))


def firmware_versions(host: Host, kernel: str) -> t.Tuple[str, ...]:
    """Return the versions of the driver for which the kernel has firmware of the GSP."""
    versions = set()
    for parent in (f"updates/{kernel}/", "updates/", f"{kernel}/", ""):
        folder = f"/lib/firmware/{parent}nvidia"
        for version in host.listdir(folder):
            names = host.listdir(f"{folder}/{version}") if version[:1].isdigit() else []
            if any(name.startswith("gsp") for name in names):
                versions.add(version)
    return tuple(sorted(versions))


class LoadedDriver(t.NamedTuple):
    """The kernel module that is loaded: its version, and open or proprietary."""

    version: str
    module_type: str


def loaded_driver(host: Host) -> t.Optional[LoadedDriver]:
    """Return the loaded driver, or None."""
    text = host.read("/proc/driver/nvidia/version")
    match = re.search(r"NVRM version: (.*?) {2,}(\d+\.[\d.]+)", text or "")
    if match is None:
        return None
    return LoadedDriver(match[2], "open" if "Open Kernel Module" in match[1] else "proprietary")


def environment(host: Host, service: t.Mapping[str, str]) -> t.Dict[str, str]:
    """Return the variables that a service's main process was started with, none without one.

    ``service`` has systemd's property MainPID.
    """
    text = proc(host, service.get("MainPID") or "0", "environ")
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
