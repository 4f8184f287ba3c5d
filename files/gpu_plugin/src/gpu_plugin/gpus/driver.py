# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver as it is now: scans for GPUs and their connections, and XIDs as they come."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from .._shared._core.errors import NodeError
from .._shared._core.gpu import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    VERSION_MISMATCH,
    Gpu,
    Links,
    NvmlError,
    parse_minors,
)
from .._shared._host.api import Host
from .._shared._nvml import readings
from .._shared._nvml.readings import Xid, XidWatch, condition
from .._shared._nvml.real import Nvml, open_nvml
from ..config.sharing import TIME_SLICES
from ..offer.devices import GpuView, Inventory, Kind, Problem
from ..offer.preference import Topology
from ..tools import logs
from ..tools.chores import Chore, Worker

ABSENT: Final = (DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH)
LOST: Final = (GPU_IS_LOST, RESET_REQUIRED)
EVERY: Final = -1  # not one GPU: what is asked for concerns all
LIBRARY_FOLDERS: Final = ("lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")


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
        self._watch: _Watcher | None = None
        self._deaf = False  # events could not be had, and that was said
        self.connections = Connections()
        self._caps: tuple[str, dict[str, int]] = ("", {})
        self._numa: dict[str, int | None] = {}  # by PCI address, while NVML is open
        self._known: frozenset[tuple[str, int]] = frozenset()  # the driver's GPUs, as NVML has them
        self._absences = 0
        self._worked = self._scanning = False

    @property
    def generation(self) -> tuple[int | None, ...]:
        """Something that differs after the driver was loaded again."""
        return (self._absences, *self.load)

    @property
    def load(self) -> tuple[int | None, ...]:
        """What another process would see as well of which load of the driver this is."""
        paths = ("sys/module/nvidia", "proc/driver/nvidia/version")
        return tuple(_inode(self._root / path) for path in paths)

    def scan(self, *driver_roots: str) -> Inventory:
        """Return what is there. NvmlError: there is no driver to ask.

        ``driver_roots`` are where the driver's files may be, the first that has them counts.
        """
        self._scanning = True
        try:
            inventory = self._read(self._current(driver_roots))
            self._worked = True
            self._follow({view.gpu.uuid for view in inventory.gpus if not view.problem})
            return inventory
        except NvmlError as error:
            self.close()
            self._absences += error.code in ABSENT
            raise
        finally:
            self._scanning = False

    @property
    def reading(self) -> int | None:
        """What a scan in another thread asks for: a GPU by its index, or EVERY; None where none runs."""
        index = self._nvml.reading if self._nvml else None
        return None if not self._scanning else EVERY if index is None else index

    def connect(self, inventory: Inventory) -> None:
        """Ask how the GPUs of a scan are connected. NvmlError: one does not answer."""
        gpus = [view.gpu for view in inventory.gpus if not view.problem]
        self.connections.refresh(gpus, (self.generation, self._known))

    def replaced(self, error: NvmlError) -> bool:
        """Tell whether the library was exchanged, so that only a new process can load it."""
        return error.code == VERSION_MISMATCH and (self._worked or library_deleted())

    def close(self) -> None:
        """Let go of the driver."""
        self._follow(set())
        self._nvml = None
        self._numa.clear()
        self._session.close()

    def _current(self, driver_roots: tuple[str, ...]) -> Nvml:
        """Return NVML. It keeps to the GPUs that it met at its opening, so others want another."""
        taken = self._taken()
        if self._nvml is not None and taken and taken != self._known:
            logs.info("the driver has other GPUs than before, opening NVML again", count=len(taken))
            self.close()
        if self._nvml is None:
            preload(driver_roots)
            self._nvml = self._session.enter_context(open_nvml())
            self._known = taken or self._taken()
        return self._nvml

    def _taken(self) -> frozenset[tuple[str, int]]:
        """Return the PCI addresses of the driver's GPUs, and what differs for one taken again."""
        try:
            with os.scandir(self._root / "proc/driver/nvidia/gpus") as found:
                return frozenset((one.name, one.inode()) for one in found)
        except OSError:
            return frozenset()

    def _read(self, nvml: Nvml) -> Inventory:
        found, broken = nvml.gpus()
        path = self._root / "proc/driver/nvidia-caps/mig-minors"
        text = path.read_text() if path.exists() else ""
        if text != self._caps[0]:  # it is long, and the same for the life of a driver
            self._caps = text, parse_minors(text)
        return Inventory(
            driver_version=nvml.driver_version(),
            gpus=tuple(self._view(nvml, gpu) for gpu in found),
            caps=self._caps[1],
            unreadable=tuple(str(error) for error in broken),
            lost=any(error.code in LOST for error in broken),
            generation=self.generation,
        )

    def _view(self, nvml: Nvml, gpu: Gpu) -> GpuView:
        numa = self._numa_node(gpu.pci_bus_id)
        nvml.reading = gpu.index
        try:
            migs = tuple(nvml.mig_devices(gpu))
            return GpuView(gpu, migs, numa, condition=condition(nvml.handle(gpu)))
        except (NvmlError, LookupError) as error:  # LookupError: instances went while being read
            lost = isinstance(error, NvmlError) and error.code in LOST
            kind = Kind.LOST if lost else Kind.UNREADABLE
            return GpuView(gpu, (), numa, Problem(kind, f"it can't be read: {error}"))
        finally:
            nvml.reading = None

    def _numa_node(self, address: str) -> int | None:
        """Return a GPU's; None where none is known, or one below 0, which says the same."""
        if address not in self._numa:
            number = -1
            with contextlib.suppress(OSError, ValueError):
                place = self._root / "sys/bus/pci/devices" / address / "numa_node"
                number = int(place.read_text())
            self._numa[address] = number if number >= 0 else None
        return self._numa[address]

    def _follow(self, gpu_uuids: set[str]) -> None:
        watch = self._watch
        if watch is not None and (watch.gpu_uuids != gpu_uuids or not watch.is_alive()):
            self._deaf = not watch.is_alive()
            watch.stop()
            self._watch = None
        if self._watch is None and gpu_uuids:
            try:
                self._watch = _Watcher(gpu_uuids, self._put, self._deaf)
            except NvmlError as error:
                if not self._deaf:
                    logs.warning("no events from the GPUs, trying again", cause=error)
                self._deaf = True
            else:
                self._watch.start()

    def _put(self, xid: Xid) -> None:
        self.xids.put(xid)
        self._wake()


class Connections:
    """How the GPUs are connected, asked for each pair once: ``topology`` is what is known."""

    def __init__(self) -> None:
        self.topology = Topology()
        self._generation: object = None
        self._levels: dict[frozenset[str], int | None] = {}
        self._links: dict[tuple[str, bool], Links] = {}

    def refresh(self, gpus: Sequence[Gpu], generation: object) -> None:
        """Read what is not known yet. NvmlError: a GPU did not answer, which the next call asks again.

        ``generation``: the driver's; another one knows other links.
        """
        if generation != self._generation:
            self._levels.clear()
            self._links.clear()
            self._generation = generation
        failed: NvmlError | None = None
        for pair in itertools.combinations(gpus, 2):
            key = frozenset(gpu.uuid for gpu in pair)
            if key not in self._levels:
                try:
                    self._levels[key] = readings.level(*pair)
                except NvmlError as error:
                    if error.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                        self._levels[key] = None
                    failed = error
        on = {gpu.uuid: gpu.mig_current for gpu in gpus}  # MIG mode takes NVLinks down
        for gpu in gpus if len(gpus) > 1 else ():
            mode = (gpu.uuid, gpu.mig_current)
            if mode not in self._links:
                try:
                    self._links[mode] = readings.links(gpu)
                except NvmlError as error:
                    failed = error
        known = Topology(
            {pair: level for pair, level in self._levels.items() if level is not None},
            {uuid: one for (uuid, mode), one in self._links.items() if on.get(uuid, mode) == mode},
            {**self.topology.addresses, **{gpu.uuid: gpu.pci_bus_id for gpu in gpus}},
        )
        if known != self.topology:
            self.topology = known
        if failed:
            raise failed


class TimeSlices:
    """How long each process has a time-sliced GPU: a policy of the driver, which only nvidia-smi can set.

    What is asked for is set once, and again after another load of the driver, which forgets it.
    """

    def __init__(self, program: str = "nvidia-smi") -> None:
        self._program = program
        self._set: dict[str, str] = {}
        self._problem = ""
        self._generation: object = None
        self._worker = Worker("time slices")  # the driver's program may hang
        self.chore = Chore("time_slices", "the time slice can't be set", self.want)

    def begin(self, slices: Mapping[str, str], generation: object) -> None:
        """Do what want() does, without waiting for it."""
        if slices or self.chore.ran:
            self._worker.start(lambda: self.chore.run(slices, generation))

    def want(self, slices: Mapping[str, str], generation: object) -> None:
        """Set time slices by GPU. What is no longer asked for gets the default back.

        NodeError: the driver does not set them, and is not asked the same again.
        """
        if generation != self._generation:
            self._generation = generation
            self._set.clear()
        wanted = {**dict.fromkeys(self._set, "default"), **slices}
        groups = {
            name: [uuid for uuid, one in wanted.items() if one == name != self._set.get(uuid)]
            for name in TIME_SLICES
        }
        if any(groups.values()):
            problems = [self._put(gpus, name) for name, gpus in groups.items() if gpus]
            self._problem = "; ".join(filter(None, problems))
        self._set = {uuid: wanted[uuid] for uuid in wanted if uuid in slices}
        if self._problem:
            raise NodeError(self._problem)

    def _put(self, gpus: list[str], name: str) -> str:
        """Tell the driver. Returns why it does not; the GPU is shared all the same."""
        command = [self._program, "compute-policy", "-i", ",".join(gpus)]
        command += ["--set-timeslice", str(TIME_SLICES.index(name))]
        done = Host().run(command, check=False, timeout=20.0)
        if done.rc:
            return f"{name} for {','.join(gpus)}: {(done.out + done.err).strip()}"
        logs.info("time slice", gpus=gpus, slice=name)
        return ""


class _Watcher(threading.Thread):
    """Waits for XIDs until it is stopped or NVML fails. ``quiet``: that it does is known."""

    def __init__(self, gpu_uuids: set[str], put: Callable[[Xid], None], quiet: bool) -> None:
        super().__init__(name="xids", daemon=True)
        self.gpu_uuids = gpu_uuids
        self._put = put
        self._quiet = quiet
        self._stopping = threading.Event()
        self._events = XidWatch(sorted(gpu_uuids))
        for uuid, error in self._events.failed.items() if not quiet else ():
            logs.warning("events of a GPU are not available", gpu=uuid, cause=error)

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                xid = self._events.wait(1.0)
                self._quiet = False  # what fails from now on is news
                if xid is not None:
                    self._put(xid)
        except NvmlError as error:
            if not self._stopping.is_set() and not self._quiet:
                logs.warning("waiting for events failed, trying again", cause=error)

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join()
        self._events.close()


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def preload(driver_roots: tuple[str, ...]) -> None:
    """Load the library from the first root that has it, so that the bindings find that one.

    That of / is found in the usual way.
    """
    for root in driver_roots:
        if root.rstrip("/") == "":
            return
        for above, folder in itertools.product(("usr", "."), LIBRARY_FOLDERS):
            path = Path(root, above, folder, "libnvidia-ml.so.1")
            if path.exists():
                with contextlib.suppress(OSError):
                    ctypes.CDLL(os.fspath(path))
                return


def library_deleted() -> bool:
    """Tell whether the library that this process loaded was exchanged on disk."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return any("libnvidia-ml.so" in line and line.endswith("(deleted)") for line in lines)
