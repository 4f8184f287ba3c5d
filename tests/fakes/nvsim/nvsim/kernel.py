# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node's kernel shows of the hardware and the driver: files under /sys, /proc and /dev.

Everything is written below a prefix. Below ``/`` device nodes are real ones, elsewhere plain files.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .node.params import shown

if TYPE_CHECKING:
    from .state import BoardGpu

MAJOR, CAPS_MAJOR, UVM_MAJOR = 195, 509, 510
CONTROL_MINOR, MODESET_MINOR = 255, 254
CAPS_PER_GPU, CAPS_PER_GI = 135, 9
# Where the first is there nobody makes device nodes, and nvidia-uvm is loaded only where the second is.
NO_UDEV, UVM_LOADED = "etc/nvsim/no-udev", "run/nvsim/uvm"
FLAVOURS = {
    "open": "NVIDIA UNIX Open Kernel Module for x86_64",
    "proprietary": "NVIDIA UNIX x86_64 Kernel Module",
}


@dataclass(frozen=True)
class KernelGpu:
    """A GPU as the kernel sees it; ``instances`` holds (GPU instance, compute instances)."""

    pci: str
    device: int
    subsystem: int
    pci_class: int
    minor: int
    uuid: str
    name: str
    numa: int
    mig_capable: bool
    instances: tuple[tuple[int, tuple[int, ...]], ...]

    @classmethod
    def of(cls, board: BoardGpu, instances: list[tuple[int, list[int]]]) -> KernelGpu:
        """Return a board's GPU with its instances."""
        from .catalog import product

        model = product(board.product)
        return cls(
            board.pci,
            model.pci_device,
            model.pci_subsystem,
            model.pci_class,
            board.minor,
            board.uuid,
            model.name,
            board.numa,
            model.mig_capable,
            tuple((gi, tuple(cis)) for gi, cis in instances),
        )


@dataclass(frozen=True)
class KernelView:
    """The machine: the loaded driver, if any, and the GPUs on the bus."""

    driver_version: str | None
    flavour: str
    gpus: tuple[KernelGpu, ...]
    options: Mapping[str, str] = field(default_factory=dict)


def gi_minor(gpu: int, gi: int) -> int:
    """Return the minor number of a GPU instance's capability."""
    return 3 + gpu * CAPS_PER_GPU + gi * CAPS_PER_GI


def ci_minor(gpu: int, gi: int, ci: int) -> int:
    """Return the minor number of a compute instance's capability."""
    return gi_minor(gpu, gi) + 1 + ci


def render(view: KernelView, root: str) -> None:
    """Make what is below the prefix show the view, and nothing else of NVIDIA's."""
    base = Path(root)
    _sync(base / "sys/bus/pci/devices", dict(_pci(view)))
    loaded = view.driver_version is not None
    _sync(base / "proc/driver", dict(_proc(view)) if loaded else {})
    by_udev = not (base / NO_UDEV).exists()
    if by_udev:
        _nodes(base / "dev", dict(_devices(view)) if loaded else {}, real=root == "/")
    if not loaded:
        (base / UVM_LOADED).unlink(missing_ok=True)
    _majors(base, loaded, uvm=by_udev or (base / UVM_LOADED).exists())


def _pci(view: KernelView) -> Iterator[tuple[str, str]]:
    for gpu in view.gpus:
        yield f"{gpu.pci}/vendor", "0x10de\n"
        yield f"{gpu.pci}/device", f"0x{gpu.device:04x}\n"
        yield f"{gpu.pci}/subsystem_vendor", "0x10de\n"
        yield f"{gpu.pci}/subsystem_device", f"0x{gpu.subsystem:04x}\n"
        yield f"{gpu.pci}/class", f"0x{gpu.pci_class:06x}\n"
        yield f"{gpu.pci}/revision", "0xa1\n"
        yield f"{gpu.pci}/numa_node", f"{gpu.numa}\n"
        yield f"{gpu.pci}/reset", ""
        driver = "DRIVER=nvidia\n" if view.driver_version else ""
        yield f"{gpu.pci}/uevent", f"{driver}PCI_SLOT_NAME={gpu.pci}\n"


def _proc(view: KernelView) -> Iterator[tuple[str, str]]:
    line = f"{FLAVOURS[view.flavour]}  {view.driver_version}  Release Build  (nvsim)"
    yield "nvidia/version", f"NVRM version: {line}\nGCC version:  gcc version 14.2.0\n"
    yield "nvidia/params", shown(view.options)
    yield "nvidia/capabilities/mig/config", _capability(1, 0o400)
    yield "nvidia/capabilities/mig/monitor", _capability(2)
    minors = ["config 1", "monitor 2"]
    for gpu in view.gpus:
        yield (
            f"nvidia/gpus/{gpu.pci}/information",
            f"Model: \t\t {gpu.name}\nIRQ:   \t\t 0\nGPU UUID: \t {gpu.uuid}\nBus Location: \t {gpu.pci}\n"
            f"Device Minor: \t {gpu.minor}\n",
        )
        if gpu.mig_capable:
            for gi in range(15):
                minors.append(f"gpu{gpu.minor}/gi{gi}/access {gi_minor(gpu.minor, gi)}")
                for ci in range(8):
                    minors.append(
                        f"gpu{gpu.minor}/gi{gi}/ci{ci}/access {ci_minor(gpu.minor, gi, ci)}"
                    )
        for gi, cis in gpu.instances:
            folder = f"nvidia/capabilities/gpu{gpu.minor}/mig/gi{gi}"
            yield f"{folder}/access", _capability(gi_minor(gpu.minor, gi))
            for ci in cis:
                yield f"{folder}/ci{ci}/access", _capability(ci_minor(gpu.minor, gi, ci))
    yield "nvidia-caps/mig-minors", "\n".join(minors) + "\n"


def _capability(minor: int, mode: int = 0o444) -> str:
    return f"DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n"


def _devices(view: KernelView) -> Iterator[tuple[str, tuple[int, int, int]]]:
    yield "nvidiactl", (MAJOR, CONTROL_MINOR, 0o666)
    yield "nvidia-modeset", (MAJOR, MODESET_MINOR, 0o666)
    yield "nvidia-uvm", (UVM_MAJOR, 0, 0o666)
    yield "nvidia-uvm-tools", (UVM_MAJOR, 1, 0o666)
    yield "nvidia-caps/nvidia-cap1", (CAPS_MAJOR, 1, 0o400)
    yield "nvidia-caps/nvidia-cap2", (CAPS_MAJOR, 2, 0o444)
    for gpu in view.gpus:
        yield f"nvidia{gpu.minor}", (MAJOR, gpu.minor, 0o666)
        for gi, cis in gpu.instances:
            for number in [gi_minor(gpu.minor, gi), *(ci_minor(gpu.minor, gi, ci) for ci in cis)]:
                yield f"nvidia-caps/nvidia-cap{number}", (CAPS_MAJOR, number, 0o444)


def _sync(folder: Path, files: dict[str, str]) -> None:
    """Make a folder hold these files and no others."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.new")
            temporary.write_text(text)
            temporary.replace(path)
    wanted = {Path(name) for name in files}
    folders = {parent for name in wanted for parent in name.parents}
    for path in sorted(folder.rglob("*"), reverse=True):
        relative = path.relative_to(folder)
        if relative not in wanted and relative not in folders:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _nodes(folder: Path, nodes: dict[str, tuple[int, int, int]], *, real: bool) -> None:
    """Make exactly these device nodes of NVIDIA's."""
    (folder / "nvidia-caps").mkdir(parents=True, exist_ok=True)
    for name, (major, minor, mode) in nodes.items():
        path = folder / name
        if path.exists():
            continue
        if real:
            os.mknod(path, mode | stat.S_IFCHR, os.makedev(major, minor))
            path.chmod(mode)
        else:
            path.write_text(f"{major}:{minor}\n")
    for path in [*folder.glob("nvidia*"), *folder.glob("nvidia-caps/*")]:
        if not path.is_dir() and str(path.relative_to(folder)) not in nodes:
            path.unlink()


def _majors(base: Path, loaded: bool, *, uvm: bool) -> None:
    """Show the driver's majors in /proc/devices, which a node's boot unit has made writable."""
    path = base / "proc/devices"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Character devices:\n  1 mem\n\nBlock devices:\n")
    ours = (f"{MAJOR} nvidia\n", f"{CAPS_MAJOR} nvidia-caps\n", f"{UVM_MAJOR} nvidia-uvm\n")
    lines = [line for line in path.read_text().splitlines(keepends=True) if line not in ours]
    if loaded:
        end = lines.index("\n") if "\n" in lines else len(lines)
        lines[end:end] = ours if uvm else ours[:2]
    path.write_text("".join(lines))
