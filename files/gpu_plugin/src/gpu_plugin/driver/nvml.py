# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver as it is now: scans for GPUs and their connections, and XIDs as they come, while NVML is open."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from .._shared._base.errors import NodeError
from .._shared._base.gpu import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NOT_FOUND,
    NOT_SUPPORTED,
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
from .._shared._machine.nvml.calls import ask_text, doing, instance, or_none, pynvml
from .._shared._machine.nvml.faults import condition
from .._shared._machine.nvml.readings import brand
from .._shared._machine.nvml.real import Nvml, open_nvml
from .._shared._machine.nvml.settings import settings
from .._shared._repair.signs import ANSWERS_BY_ERROR, STEPS, Action
from .._shared._repair.verdict import ANSWERS
from ..model.inventory import BY_ITSELF, GpuView, Inventory, Kind, Layout, Problem
from ..tools import logs
from ..tools.files import inode
from .asking import EVERY, Asking, Connections, SettingsWatch

ABSENT: Final = (DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH)
LOST: Final = (GPU_IS_LOST, RESET_REQUIRED)
WAIT: Final = 1.0  # seconds that NVML is asked to wait for an event
ENDS: Final = 2 * WAIT  # seconds within which a wait that works is over
LASTED: Final = 1.0  # seconds after which an event set that fails did work before
ENTRIES: Final = ("proc/driver/nvidia/gpus", "sys/bus/pci/devices")  # of GPUs, by PCI address


# --- XIDs ---


class Xid(NamedTuple):
    """An XID that a GPU reported; the ids of instances are None if it concerns the whole GPU."""

    gpu_uuid: str
    number: int
    gi_id: int | None = None
    ci_id: int | None = None


class XidWatch:
    """An NVML event set. To be used while NVML is open, and closed before it is."""

    def __init__(self) -> None:
        self._uuids: dict[int | None, str] = {}
        self._set: Any = doing("creating an event set")(pynvml.nvmlEventSetCreate)()

    @property
    def hears(self) -> bool:
        """Whether the events of any GPU are registered."""
        return bool(self._uuids)

    @doing("asking for a GPU's events")
    def add(self, uuid: str) -> None:
        """Hear of a GPU too, if it has events."""
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        event_types = pynvml.nvmlEventTypeXidCriticalError
        if not pynvml.nvmlDeviceGetSupportedEventTypes(handle) & event_types:
            return
        self._uuids[_address(handle)] = uuid  # one may come before the next call returns
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, event_types, self._set)
        except pynvml.NVMLError:
            del self._uuids[_address(handle)]
            raise

    @doing("waiting for events")
    def wait(self, seconds: float) -> Xid | None:
        """Return the next XID, or None when none came in time."""
        milliseconds = int(seconds * 1000)
        event = or_none((TIMEOUT,), pynvml.nvmlEventSetWait_v2, self._set, milliseconds)
        if event is None:
            return None
        gi, ci = instance(event.gpuInstanceId), instance(event.computeInstanceId)
        uuid = self._uuids.get(_address(event.device))  # a GPU that is lost can't be asked any more
        if uuid is None:
            uuid = ask_text(pynvml.nvmlDeviceGetUUID, event.device)
        return Xid(uuid, int(event.eventData), gi, ci)

    def close(self) -> None:
        """Give the event set back."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlEventSetFree(self._set)


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


class Ears:
    """Hears of XIDs for as long as NVML is open; ``put`` is called with each, in a thread of its own.

    A wait that goes on for ``longest`` seconds more than it was asked to is a fault.
    GPUs are added as they are found. Where events fail, or a GPU comes back, there is another event
    set: NVML says that one may be in an undefined state then.
    """

    def __init__(self, put: Callable[[Xid], None], longest: float) -> None:
        self._put, self._longest = put, longest
        self._listener: _Listener | None = None
        self._before: list[_Listener] = []
        self._failed: set[str] = set()  # GPUs whose events can't be had
        self._quiet = False  # that there are none was said

    def begin(self) -> None:
        """Have an event set to which GPUs can be added, before they are looked at."""
        listener = self._listener
        if listener is not None and (listener.ended or listener.stale):
            self._quiet = listener.ended
            self._before.append(listener)
            self._listener = None
        if self._listener is None:
            try:
                self._listener = _Listener(self._put, self._quiet)
            except NvmlError as error:
                if not self._quiet:
                    logs.warning("no events from the GPUs, trying again", cause=error)
                self._quiet = True

    def add(self, gpu_uuid: str, fit: bool) -> None:
        """Hear of a GPU too, if it can be used. One that can't is asked for again when it can."""
        listener = self._listener
        if listener is None:
            return
        if not fit:
            self._failed.discard(gpu_uuid)
            listener.gone.add(gpu_uuid)
        elif gpu_uuid in listener.gone:
            listener.stale = True
        elif gpu_uuid not in listener.asked and gpu_uuid not in self._failed:
            self._failed |= listener.add(gpu_uuid)

    def keep(self, gpu_uuids: Iterable[str]) -> None:
        """Listen, now that all were looked at; others than these are not there any more."""
        if self._listener is not None:
            self._listener.gone |= self._listener.asked - set(gpu_uuids)
            self._listener.begin()
        for listener in self._before:
            listener.stop()
        self._before = [listener for listener in self._before if listener.is_alive()]

    def check(self) -> None:
        """Check that XIDs are heard.

        Raises:
            NodeError: if they are not, and why.
        """
        listener = self._listener
        if listener is None:
            raise NodeError("there is no event set")
        if listener.silent > (limit := WAIT + self._longest):
            raise NodeError(f"NVML has not come back from a wait of a second for {limit:g} seconds")
        if listener.ended or listener.quiet:
            raise NodeError("waiting for events fails")
        if self._failed:
            raise NodeError(f"events of {', '.join(sorted(self._failed))} are not available")

    def close(self) -> bool:
        """Stop listening. Return whether no listener waits any more, so that NVML may be closed."""
        self._before += [self._listener] if self._listener else []
        self._listener = None
        self._failed.clear()
        for listener in self._before:
            listener.stop()
        for listener in self._before:
            listener.end(ENDS)
        self._before = [listener for listener in self._before if listener.is_alive()]
        return not self._before


class _Listener:
    """Waits for the events of one set until it is stopped or NVML fails. ``quiet``: that it does is known."""

    def __init__(self, put: Callable[[Xid], None], quiet: bool) -> None:
        self.asked: set[str] = set()  # the GPUs whose events were asked for
        self.gone: set[str] = set()  # those of them that could not be used meanwhile
        self.stale = False  # another set is wanted
        self.quiet = quiet  # until a wait succeeds
        self.ended = False  # it listened, and does not any more
        self._put = put
        self._stopping = False
        self._waits_since = 0.0
        self._events = XidWatch()
        self._thread = threading.Thread(target=self._run, name="xids", daemon=True)

    @property
    def silent(self) -> float:
        """How many seconds the wait goes on."""
        return time.monotonic() - self._waits_since if self.is_alive() else 0.0

    def is_alive(self) -> bool:
        """Return whether a thread waits for events."""
        return self._thread.is_alive()

    def add(self, gpu_uuid: str) -> set[str]:
        """Ask for the events of a GPU. Return it if it has none to be heard."""
        self.asked.add(gpu_uuid)
        try:
            self._events.add(gpu_uuid)
        except NvmlError as error:
            if error.code != NOT_SUPPORTED:
                logs.warning("events of a GPU are not available", gpu=gpu_uuid, cause=error)
                self.stale |= error.code == UNKNOWN_ERROR
                return {gpu_uuid}
        return set()

    def begin(self) -> None:
        """Wait for events, if there can be any."""
        if self._thread.ident is not None:
            return
        if self._events.hears:
            self._waits_since = time.monotonic()
            self._thread.start()
        else:
            self.quiet = False  # no wait will fail or succeed

    def stop(self) -> None:
        """Let the thread end by itself."""
        self._stopping = True
        if self._thread.ident is None:
            self._events.close()

    def end(self, seconds: float) -> None:
        """Wait for its end."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while self._listen():
                pass
        finally:
            self._events.close()
            self.ended = True

    def _listen(self) -> bool:
        """Wait for events until it is stopped or NVML fails. Return whether to go on with another event set."""
        begun = time.monotonic()
        try:
            while not self._stopping:
                self._waits_since = time.monotonic()
                xid = self._events.wait(WAIT)
                self.quiet = False  # what fails from now on is news
                if xid is not None:
                    self._put(xid)
        except NvmlError as error:
            if not self._stopping and not self.quiet:
                logs.warning("waiting for events failed, trying again", cause=error)
            self.quiet = True
            lasted = time.monotonic() - begun >= LASTED  # else it is tried again at the next look
            return lasted and not self._stopping and self._renew()
        return False

    def _renew(self) -> bool:
        """Hear of those GPUs that can be heard of with another event set, at once.

        A wait fails for all where one GPU falls off the bus, and those beside it have XIDs in just that second.
        """
        try:
            events = XidWatch()
        except NvmlError:
            return False
        for uuid in sorted(self.asked - self.gone):
            try:
                events.add(uuid)
            except NvmlError:
                self.gone.add(uuid)
        self._events.close()
        self._events = events
        return events.hears


# --- scans ---


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
        """The load of the driver: it differs after the driver was loaded again.

        If what the kernel shows of the driver can't be seen, each time that it was away counts as another load.
        """
        return (self._absences if None in self.load else 0, *self.load)

    @property
    def load(self) -> tuple[int | None, ...]:
        """The load of the driver as other processes see it too."""
        paths = ("sys/module/nvidia", "proc/driver/nvidia/version")
        return tuple(inode(self._root / path) for path in paths)

    def scan(self, *driver_roots: str) -> Inventory:
        """Return the GPUs with what they report.

        ``driver_roots`` are where the driver's files may be, the first that has them counts.

        Raises:
            NvmlError: if there is no driver to ask.
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
        """Ask how the GPUs of a scan are connected.

        Raises:
            NvmlError: if one does not answer.
        """
        gpus = [view.gpu for view in inventory.gpus if not view.problem]
        self.connections.refresh(gpus, (self.generation, self._known), self.asking)

    def compare(self, inventory: Inventory) -> None:
        """Compare the settings of the GPUs of a scan with the declared ones.

        Raises:
            NodeError, OSError: if not all can be compared.
        """
        nvml = self._nvml
        if nvml is not None:
            gpus = [view.gpu for view in inventory.gpus if not view.problem]
            self.settings.refresh(gpus, lambda gpu: settings(nvml.handle(gpu)), self.asking)

    def check_events(self) -> None:
        """Check that XIDs are heard, if there is a driver.

        Raises:
            NodeError: if they are not, and why.
        """
        if self._nvml is not None:
            self._ears.check()

    def replaced(self, error: NvmlError) -> bool:
        """Return whether the library was exchanged, so that only a new process can load it."""
        return error.code == VERSION_MISMATCH and (self._worked or library_deleted())

    def close(self) -> bool:
        """Close NVML, unless an answer of it is still waited for. Return whether it is closed."""
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
        has_new_gpus = self._nvml is not None and bool(taken) and taken != self._known
        if has_new_gpus and not self.asking.waits(besides=EVERY):
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
            with os.scandir(self._root / "proc/driver/nvidia/gpus") as entries:
                return frozenset((entry.name, entry.inode()) for entry in entries)
        except OSError:
            return frozenset()

    def _read(self, nvml: Nvml, count: int, version: str) -> Inventory:
        ask = functools.partial(self._look, nvml)
        looks = self.asking.each("look", range(count), ask, known=self._seen)
        views: dict[str, GpuView] = {}
        broken = []
        places = {view.gpu.uuid: view.gpu.pci_bus_id for view in self._seen.values()}
        for index in range(self._counted):
            look = looks.get(index)
            if look is None:  # it has not answered, or is not counted any more
                code = TIMEOUT if index < count else NOT_FOUND
                seen = self._seen.get(index) if index < count else None
                look = seen or NvmlError(code, f"reading GPU {index}", gpu_index=index)
            if isinstance(look, GpuView):
                gpu, place = look.gpu, look.gpu.pci_bus_id
                if gpu.uuid not in views and places.get(gpu.uuid, place) == place:
                    views[gpu.uuid] = self._seen[index] = look
                    continue
                task = f"reading GPU {gpu.index} at {place}, which gives another GPU's UUID"
                look = NvmlError(UNKNOWN_ERROR, task, gpu_index=gpu.index)
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
                error.gpu_index: _problem(error) for error in broken if error.gpu_index is not None
            },
            addresses=frozenset(name for name, _inode in self._taken()),
            generation=self.generation,
            cuda_version=self._cuda,
        )

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
            migs, handle = tuple(nvml.mig_devices(gpu)), nvml.handle(gpu)
            reported = condition(handle)
            if gpu.uuid not in self._brands:
                self._brands[gpu.uuid] = brand(handle)
            read = nvml.layouts.get(gpu.uuid) if gpu.mig_current else None
            profiles, instances = read or ([], [])  # by which its MIG devices were read
            return GpuView(
                gpu,
                migs,
                numa,
                condition=reported,
                entries=tuple(inode(self._root / path / gpu.pci_bus_id) for path in ENTRIES),
                unnamed=nvml.unnamed.get(gpu.uuid, ()),
                layout=Layout(tuple(profiles), tuple(instances)),
                brand=self._brands[gpu.uuid],
                pcie_root=self._pcie_root(gpu.pci_bus_id),
            )
        except (NvmlError, LookupError) as error:  # LookupError: instances went while being read
            before = self._seen.get(gpu.index)  # or its MIG devices would vanish under their users
            problem = _problem(error, "it can't be read: ")
            if before is None or before.gpu.uuid != gpu.uuid:
                return GpuView(gpu, (), numa, problem)
            known = {name: getattr(before, name) for name in ("layout", "brand", "pcie_root")}
            return GpuView(gpu, before.mig, numa, problem, **known)

    def _pcie_root(self, address: str) -> str:
        """Return the root complex that a GPU is below, as sysfs calls it."""
        try:
            place = (self._root / "sys/bus/pci/devices" / address).readlink()
        except OSError:
            return ""
        return next((part for part in place.parts if part.startswith("pci")), "")

    def _numa_node(self, address: str) -> int | None:
        """Return a GPU's NUMA node, None if none is known, which sysfs also expresses as -1."""
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


def _problem(error: Exception, task: str = "") -> Problem:
    code = error.code if isinstance(error, NvmlError) else 0
    verdict = ANSWERS[ANSWERS_BY_ERROR[code]][0] if code in ANSWERS_BY_ERROR else Action.ASK
    if code in LOST:
        return Problem(Kind.LOST, f"{task}{error}", code, STEPS[verdict], verdict)
    recovery = f"{BY_ITSELF} as soon as the GPU can be read again"
    return Problem(Kind.UNREADABLE, f"{task}{error}", code, recovery, verdict)


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
    """Return whether the library that this process loaded was exchanged on disk."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return any("libnvidia-ml.so" in line and line.endswith("(deleted)") for line in lines)
