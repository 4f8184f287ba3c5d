# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The simulated driver: the state, the processes on the GPUs, events, and the faults to play."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from . import handles
from .codes import IN_USE, INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS, NvError
from .kernel import KernelGpu, KernelView, render
from .state import Gpu, Store

EVERY = "*"  # function
LONGEST_WAIT = 3600.0


@dataclass
class Process:
    """A process on a GPU; ids of instances are None on a whole GPU, memory is in bytes."""

    pid: int
    gpu: str
    gi: int | None
    ci: int | None
    memory: int


@dataclass
class Fault:
    """A code to answer instead of doing the work, from the nth call on, so many times."""

    gpu: str | None
    function: str
    code: int
    nth: int = 1
    times: int | None = None


@dataclass(eq=False)
class Client:
    """A connection of a process that has NVML open, and the GPUs that it has opened by that."""

    pid: int
    gpus: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Lie:
    """What is stored through an argument instead of the truth."""

    at: int
    data: bytes


@dataclass(frozen=True)
class Event:
    """An event of a GPU."""

    gpu: str
    type: int
    data: int
    gi: int = 0xFFFFFFFF
    ci: int = 0xFFFFFFFF


@dataclass
class EventSet:
    """What a client waits for: masks by GPU, and the events that came."""

    masks: dict[str, int] = field(default_factory=dict)
    queue: deque[Event] = field(default_factory=deque)


class Engine:
    """Everything behind the calls; ``lock`` guards it, and events wake its waiters."""

    def __init__(self, store: Store, root: str | None) -> None:
        self.store, self.root = store, root
        self.lock = threading.Condition(threading.RLock())
        self.processes: list[Process] = []
        self.clients: set[Client] = set()
        self.faults: list[Fault] = []
        self.delays: dict[tuple[str, str | None], float] = {}  # by function, and by GPU if of one
        self.lies: dict[tuple[str, str | None], Lie] = {}  # likewise
        self.running = self.permits = 0  # calls that are carried out, and calls to let through
        self.profiles_need_mig = False  # as with drivers of branch 535 and older
        self.passthrough = False  # in a virtual machine the driver cannot reset a GPU by itself
        self.fabric_manager = True  # it runs
        self.vgpu = False  # the machine is a vGPU guest
        self.limits: dict[tuple[str, int], tuple[int, int]] = {}  # by GPU and inode of a cgroup
        self.event_sets: dict[int, EventSet] = {}
        self.called: Counter[tuple[str, str | None]] = Counter()  # functions, by the GPU if of one
        self.answered: Counter[tuple[int, str, int]] = Counter()  # by process, function and code
        self.waiting: Counter[tuple[str, str | None]] = Counter()  # functions that are slow, now
        self.cables: list[tuple[str, str]] = []  # the GPUs at both ends of each NVLink, both ways
        self.cliques: dict[str, tuple[str, int]] = {}  # cluster and clique of GPUs in a fabric
        self.fabrics: dict[str, tuple[int, int, int]] = {}  # their state, its error, their health

    # --- lookups ---

    def gpu(self, index: int) -> Gpu:
        """Return a GPU by its index."""
        gpus = self.store.gpus()
        if index >= len(gpus):
            raise NvError(INVALID_ARGUMENT)
        return gpus[index]

    def find(self, name: str) -> Gpu:
        """Return a GPU by index, UUID or PCI address, for the scene's director."""
        for gpu in self.store.gpus():
            if name in (str(gpu.index), gpu.board.uuid, gpu.board.pci):
                return gpu
        raise ValueError(f"no GPU {name!r} (is the driver loaded?)")

    def on(self, gpu: Gpu, gi: int | None = None, ci: int | None = None) -> list[Process]:
        """Return the processes on a GPU, or on one of its instances."""
        return [
            one
            for one in self.processes
            if one.gpu == gpu.board.uuid
            and (gi is None or one.gi == gi)
            and (ci is None or one.ci == ci)
        ]

    # --- changes ---

    def changed(self) -> None:
        """Save the state and show it to the node."""
        self.store.save()
        self.render()

    def render(self) -> None:
        """Show the state under /proc, /dev and /sys."""
        if self.root is not None:
            render(self.view(), self.root)

    def view(self) -> KernelView:
        """Return what the kernel shows of the state."""
        driver = self.store.driver
        by_uuid = {gpu.board.uuid: gpu for gpu in self.store.gpus()}
        gpus = []
        for board in sorted(self.store.on_bus(), key=lambda one: one.pci):
            gpu = by_uuid.get(board.uuid)
            gis = gpu.driver.gis if gpu else []
            gpus.append(KernelGpu.of(board, [(gi.id, [ci.id for ci in gi.cis]) for gi in gis]))
        if driver is None:
            return KernelView(None, "", tuple(gpus))
        return KernelView(driver.version, driver.flavour, tuple(gpus), driver.options)

    def reset(self, gpu: Gpu) -> None:
        """Reset a GPU: instances go, MIG mode that was pending comes into force. One that died stays lost.

        What a reset does to limits and clocks NVIDIA does not document: here they are gone.
        """
        gpu.driver.gis.clear()
        gpu.driver.compute_mode = gpu.driver.power_limit = 0
        gpu.driver.graphics_lock = gpu.driver.memory_lock = None
        gpu.driver.power_profiles = []
        gpu.driver.channel_pending = gpu.driver.tpc_pending = False
        gpu.driver.mig_current = gpu.driver.mig_pending
        gpu.driver.ecc = gpu.board.ecc_mode
        gpu.driver.reset_required = gpu.driver.row_pending = False
        gpu.driver.lost = gpu.board.dead
        gpu.driver.uncorrected = 0
        gpu.driver.began = time.time()
        gpu.driver.recovery = 0
        self.changed()

    def refusal(self, gpu: Gpu, pid: int) -> int:
        """Return the code with which the driver refuses to reset a GPU for a process, SUCCESS where it does not."""
        if self.passthrough or self.vgpu:
            return NOT_SUPPORTED
        others = any(gpu.board.uuid in one.gpus for one in self.clients if one.pid != pid)
        # Persistence mode counts as a client, as NVSentinel met it.
        return IN_USE if others or self.on(gpu) or gpu.driver.persistence else SUCCESS

    def branch(self) -> int:
        """Return the branch of the driver that is loaded, 0 for none."""
        driver = self.store.driver
        return int(driver.version.split(".")[0]) if driver else 0

    # --- events ---

    def new_event_set(self) -> int:
        """Return the handle of a new event set."""
        number = next(n for n in range(1, 1 << 11) if n not in self.event_sets)
        self.event_sets[number] = EventSet()
        return handles.encode(handles.Handle(handles.EVENTS, 0, number >> 4, number & 0xF))

    def event_set_number(self, address: int) -> int:
        """Return an event set's number from its handle."""
        handle = handles.decode(address, handles.EVENTS)
        number = handle.gi << 4 | handle.ci
        if number not in self.event_sets:
            raise NvError(INVALID_ARGUMENT)
        return number

    def post(self, event: Event) -> None:
        """Deliver an event to every set that asked for it."""
        with self.lock:
            for one in self.event_sets.values():
                if one.masks.get(event.gpu, 0) & event.type:
                    one.queue.append(event)
            self.lock.notify_all()

    def wait(self, number: int, seconds: float) -> Event | None:
        """Wait for an event of a set; None after the time."""
        deadline = time.monotonic() + seconds
        with self.lock:
            while True:
                events = self.event_sets.get(number)
                if events is None:
                    raise NvError(INVALID_ARGUMENT)
                if events.queue:
                    return events.queue.popleft()
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self.lock.wait(left)

    # --- faults ---

    def linger(self, function: str, gpu: str | None) -> None:
        """Keep a call waiting as long as its function is slow; who makes it quick again ends the wait."""
        begun = time.monotonic()
        with self.lock:
            self.waiting[function, gpu] += 1
            while (left := begun + self._delay(function, gpu) - time.monotonic()) > 0:
                if self.permits:
                    self.permits -= 1
                    break
                self.lock.wait(min(left, LONGEST_WAIT))
            self.waiting[function, gpu] -= 1

    def _delay(self, function: str, gpu: str | None) -> float:
        known = {(name, one) for name in (function, EVERY) for one in (None, gpu)}
        return max((self.delays.get(one, 0.0) for one in known), default=0.0)

    def play_fault(self, function: str, gpu: str | None) -> None:
        """Raise the code of a fault that waits for this call."""
        for fault in list(self.faults):
            if fault.function not in (function, EVERY) or fault.gpu not in (None, gpu):
                continue
            if fault.nth > 1:
                fault.nth -= 1
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
            raise NvError(fault.code)
