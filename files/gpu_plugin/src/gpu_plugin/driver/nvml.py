# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver as it is now: scans for GPUs and their connections, and XIDs as they come."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .._shared._base.gpu import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NOT_FOUND,
    RESET_REQUIRED,
    TIMEOUT,
    UNKNOWN_ERROR,
    VERSION_MISMATCH,
    Gpu,
    NvmlError,
    parse_minors,
)
from .._shared._cdi.machine.driver_files import DriverFiles
from .._shared._machine.host import Host
from .._shared._machine.nvml.faults import condition
from .._shared._machine.nvml.readings import brand
from .._shared._machine.nvml.real import Nvml, open_nvml
from .._shared._machine.nvml.settings import settings
from .._shared._repair.actions import STEPS, Action
from .._shared._repair.findings import ANSWERS
from .._shared._repair.state import ANSWERED
from ..model.inventory import BY_ITSELF, GpuView, Inventory, Kind, Layout, Problem
from ..tools import logs
from .asking import EVERY, Asking, Connections
from .events import Ears, Xid
from .settings import SettingsWatch

ABSENT: Final = (DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH)
LOST: Final = (GPU_IS_LOST, RESET_REQUIRED)


class DriverReplaced(Exception):
    """The driver on disk is another one; only a new process can use it."""


class Driver:
    """NVML, opened when there is a driver and opened again when it failed.

    ``host_root`` is where the host's /proc and /sys are seen, ``wake`` is called when an XID came.
    """

    def __init__(self, host_root: Path, wake: Callable[[], None]) -> None:
        self.xids: queue.SimpleQueue[Xid] = queue.SimpleQueue()
        self._root = host_root
        self._wake = wake
        self._session = contextlib.ExitStack()
        self._nvml: Nvml | None = None
        self.asking = Asking()
        self._ears = Ears(self._put, self.asking.longest)
        self._counted = 0  # the GPUs, when NVML was opened
        self._seen: dict[int, GpuView] = {}  # as they were when they answered last, by index
        self.connections, self.settings = Connections(), SettingsWatch(host_root)
        self._caps: tuple[str, dict[str, int]] = ("", {})
        self._numa: dict[str, int | None] = {}  # by PCI address, while NVML is open
        self._brands: dict[str, int | None] = {}  # by UUID, while NVML is open
        self._cuda = ""
        self._known: frozenset[tuple[str, int]] = frozenset()  # the driver's GPUs, as NVML has them
        self._absences = 0
        self._worked = False

    @property
    def generation(self) -> tuple[int | None, ...]:
        """Something that differs after the driver was loaded again.

        Where what the kernel shows of the driver can't be seen, each time that it was away counts as another load.
        """
        return (self._absences if None in self.load else 0, *self.load)

    @property
    def load(self) -> tuple[int | None, ...]:
        """What another process would see as well of which load of the driver this is."""
        paths = ("sys/module/nvidia", "proc/driver/nvidia/version")
        return tuple(_inode(self._root / path) for path in paths)

    def scan(self, *driver_roots: str) -> Inventory:
        """Return what is there. NvmlError: there is no driver to ask.

        ``driver_roots`` are where the driver's files may be, the first that has them counts.
        """
        try:
            nvml = self._current(driver_roots)
            with self.asking.of(EVERY):
                count, version = nvml.count(), nvml.driver_version()
                with contextlib.suppress(NvmlError):  # libcuda may be missing
                    self._cuda = self._cuda or nvml.cuda_version()
                self._counted = max(count, self._counted)
                self._ears.begin()
            inventory = self._read(nvml, count, version)
            self._worked = True
            return inventory
        except NvmlError as error:
            with self.asking.of(EVERY):
                self.close()
            self._absences += error.code in ABSENT
            raise

    def connect(self, inventory: Inventory) -> None:
        """Ask how the GPUs of a scan are connected. NvmlError: one does not answer."""
        gpus = [view.gpu for view in inventory.gpus if not view.problem]
        self.connections.refresh(gpus, (self.generation, self._known), self.asking)

    def compare(self, inventory: Inventory) -> None:
        """Compare what the GPUs of a scan are set to with what is declared. NodeError, OSError: not all can be."""
        nvml = self._nvml
        if nvml is not None:
            gpus = [view.gpu for view in inventory.gpus if not view.problem]
            self.settings.refresh(gpus, lambda gpu: settings(nvml.handle(gpu)), self.asking)

    def check_events(self) -> None:
        """NodeError: XIDs can't be heard, and why."""
        if self._nvml is not None:
            self._ears.check()

    def replaced(self, error: NvmlError) -> bool:
        """Tell whether the library was exchanged, so that only a new process can load it."""
        return error.code == VERSION_MISMATCH and (self._worked or library_deleted())

    def close(self) -> bool:
        """Let go of the driver, unless somebody still waits for its answer. Returns whether it is so."""
        if self.asking.waits(besides=EVERY) or not self._ears.close():
            return False
        self._nvml, self._counted, self._cuda = None, 0, ""
        self._numa.clear()
        self._brands.clear()
        self._seen.clear()
        self._session.close()
        return True

    def _current(self, driver_roots: tuple[str, ...]) -> Nvml:
        """Return NVML. It keeps to the GPUs that it met at its opening, so others want another."""
        taken = self._taken()
        others = self._nvml is not None and bool(taken) and taken != self._known
        if others and not self.asking.waits(besides=EVERY):
            logs.info("the driver has other GPUs than before, opening NVML again", count=len(taken))
            with self.asking.of(EVERY):
                self.close()
        if self._nvml is None:
            preload(driver_roots)
            with self.asking.of(EVERY):
                self._nvml = self._session.enter_context(open_nvml())
            self.asking.forget()  # that GPUs take their time to start is no fault of theirs
            self._known = taken or self._taken()
        return self._nvml

    def _taken(self) -> frozenset[tuple[str, int]]:
        """Return the PCI addresses of the driver's GPUs, and what differs for one taken again."""
        try:
            with os.scandir(self._root / "proc/driver/nvidia/gpus") as found:
                return frozenset((one.name, one.inode()) for one in found)
        except OSError:
            return frozenset()

    def _read(self, nvml: Nvml, count: int, version: str) -> Inventory:
        ask = functools.partial(self._look, nvml)
        looks = self.asking.each("look", range(count), ask, known=self._seen)
        views: dict[str, GpuView] = {}
        broken = []
        places = {view.gpu.uuid: view.gpu.pci_bus_id for view in self._seen.values()}
        for index in range(self._counted):
            look = looks.get(index) or self._late_view(index, count)
            if isinstance(look, GpuView):
                place = look.gpu.pci_bus_id
                if look.gpu.uuid in views or places.get(look.gpu.uuid, place) != place:
                    look = _mistaken(look.gpu)
            if isinstance(look, GpuView):
                views[look.gpu.uuid] = self._seen[index] = look
            else:
                broken.append(look)
        self._ears.keep(views)
        path = self._root / "proc/driver/nvidia-caps/mig-minors"
        text = path.read_text() if path.exists() else ""
        if text != self._caps[0]:  # it is long, and the same for the life of a driver
            self._caps = text, parse_minors(text)
        return Inventory(
            driver_version=version,
            gpus=tuple(views.values()),
            caps=self._caps[1],
            unreadable={
                one.gpu_index: _problem(one) for one in broken if one.gpu_index is not None
            },
            addresses=frozenset(name for name, _inode in self._taken()),
            generation=self.generation,
            cuda_version=self._cuda,
        )

    def _late_view(self, index: int, count: int) -> GpuView | NvmlError:
        """Return what is known of a GPU that has not answered, or is not counted any more."""
        seen = self._seen.get(index) if index < count else None
        code = TIMEOUT if index < count else NOT_FOUND
        return seen or NvmlError(code, f"reading GPU {index}", gpu_index=index)

    def _look(self, nvml: Nvml, index: int) -> GpuView | NvmlError:
        try:
            view = self._view(nvml, nvml.gpu(index))
        except NvmlError as error:
            return error
        self._ears.add(view.gpu.uuid, not view.problem)
        return view

    def _view(self, nvml: Nvml, gpu: Gpu) -> GpuView:
        numa = self._numa_node(gpu.pci_bus_id)
        try:
            migs = tuple(nvml.mig_devices(gpu))
            return GpuView(
                gpu,
                migs,
                numa,
                condition=condition(nvml.handle(gpu)),
                entries=self._entries(gpu.pci_bus_id),
                unnamed=nvml.unnamed.get(gpu.uuid, ()),
                layout=_layout(nvml, gpu),
                brand=self._brand(nvml, gpu),
                pcie_root=self._pcie_root(gpu.pci_bus_id),
            )
        except (NvmlError, LookupError) as error:  # LookupError: instances went while being read
            before = self._seen.get(gpu.index)  # or its MIG devices would vanish under their users
            problem = _problem(error, "it can't be read: ")
            if before is None or before.gpu.uuid != gpu.uuid:
                return GpuView(gpu, (), numa, problem)
            known = {name: getattr(before, name) for name in ("layout", "brand", "pcie_root")}
            return GpuView(gpu, before.mig, numa, problem, **known)

    def _brand(self, nvml: Nvml, gpu: Gpu) -> int | None:
        if gpu.uuid not in self._brands:
            self._brands[gpu.uuid] = brand(nvml.handle(gpu))
        return self._brands[gpu.uuid]

    def _pcie_root(self, address: str) -> str:
        """Return the root complex that a GPU is below, as sysfs calls it."""
        try:
            place = (self._root / "sys/bus/pci/devices" / address).readlink()
        except OSError:
            return ""
        return next((part for part in place.parts if part.startswith("pci")), "")

    def _entries(self, address: str) -> tuple[int | None, ...]:
        paths = ("proc/driver/nvidia/gpus", "sys/bus/pci/devices")
        return tuple(_inode(self._root / path / address) for path in paths)

    def _numa_node(self, address: str) -> int | None:
        """Return a GPU's; None where none is known, or one below 0, which says the same."""
        if address not in self._numa:
            number = -1
            with contextlib.suppress(OSError, ValueError):
                place = self._root / "sys/bus/pci/devices" / address / "numa_node"
                number = int(place.read_text())
            self._numa[address] = number if number >= 0 else None
        return self._numa[address]

    def _put(self, xid: Xid) -> None:
        self.xids.put(xid)
        self._wake()


def _layout(nvml: Nvml, gpu: Gpu) -> Layout:
    """Return what the GPU's MIG devices were read by."""
    if not gpu.mig_current or gpu.uuid not in nvml.layouts:
        return Layout()
    profiles, instances = nvml.layouts[gpu.uuid]
    return Layout(tuple(profiles), tuple(instances))


def _mistaken(gpu: Gpu) -> NvmlError:
    """Return the error of a GPU that answers with another one's UUID."""
    what = f"reading GPU {gpu.index} at {gpu.pci_bus_id}, which gives another GPU's UUID"
    return NvmlError(UNKNOWN_ERROR, what, gpu_index=gpu.index)


def _problem(error: Exception, what: str = "") -> Problem:
    code = error.code if isinstance(error, NvmlError) else 0
    verdict = ANSWERS[ANSWERED[code]][0] if code in ANSWERED else Action.ASK
    if code in LOST:
        return Problem(Kind.LOST, f"{what}{error}", code, STEPS[verdict], verdict)
    way = f"{BY_ITSELF} as soon as the GPU can be read again"
    return Problem(Kind.UNREADABLE, f"{what}{error}", code, way, verdict)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def preload(driver_roots: tuple[str, ...]) -> None:
    """Load the library from the first root that has it, so that the bindings find that one.

    That of / is found in the usual way. Links lead to what is below the same root, as Debian's alternatives do.
    """
    for root in driver_roots:
        if root.rstrip("/") == "":
            return
        path = DriverFiles(Host(), root).nvml_library() if Path(root).is_dir() else ""
        if path:
            with contextlib.suppress(OSError):
                ctypes.CDLL(path)
            return


def library_deleted() -> bool:
    """Tell whether the library that this process loaded was exchanged on disk."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return any("libnvidia-ml.so" in line and line.endswith("(deleted)") for line in lines)
