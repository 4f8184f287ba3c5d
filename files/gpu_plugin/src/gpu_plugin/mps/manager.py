# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The manager of one device's MPS daemon: brings it up, watches it, and ends it."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .. import logs
from .._shared._core.errors import NodeError
from .._shared._nvml.api import NOT_FOUND, Nvml, NvmlError
from .._shared._nvml.real import open_nvml
from . import folders, multi_user, words
from .control import START_SECONDS, Control
from .places import Names
from .remembered import Remembered
from .report import FAILED, READY, STARTING, Report
from .shares import Shares, plan
from .words import ControlError, LimitNotTaken

STEADY_SECONDS: Final = 60.0
SERVER: Final = "nvidia-cuda-mps-server"
STOP_SECONDS: Final = 20.0  # what an end takes beside the clients


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    device: str
    replicas: int
    memory: str
    threads: str
    most: int
    overcommit: bool
    multi_user: bool
    root: Path
    control: str
    own_shm: bool
    shm_size: int
    drain: float
    interval: float
    shared_while: Path | None = None
    steady: float = STEADY_SECONDS


@dataclass
class Told:
    """What signals have told. ``last``: nobody will start this again, so no mode is to be left."""

    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    last: bool = False


def run(options: Options) -> int:
    """Run a device's MPS daemon until SIGTERM, or SIGINT, which also gives the compute mode back.

    Returns the exit status.
    """
    names = Names(options.device, str(options.root.absolute()))
    told = Told()

    def stopping(number: int, _frame: object) -> None:
        told.last |= number == signal.SIGINT
        told.stop.set()
        told.wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopping)
    with folders.locked(names):
        report = Report(names, os.getpid())
        report.state(STARTING)
        try:
            _manage(options, names, report, told)
        except (NodeError, OSError) as error:
            report.state(FAILED, problem=str(error))
            return 1
        report.remove()
    return 0


def _manage(options: Options, names: Names, report: Report, told: Told) -> None:
    remembered = Remembered(names)
    remembered.end_leftover()
    folders.make(names)
    with open_nvml() as nvml:
        shares = _shares(nvml, options)
        if options.multi_user:
            multi_user.require(options.control)
        if options.device.startswith("GPU-"):
            _warn_of_others(nvml, options.device)
            remembered.make_exclusive()
    paused = False
    try:
        own_shm = options.own_shm and folders.mount_shm(names, options.shm_size)
        report.shares(shares, own_shm, options.multi_user)
        arguments = (multi_user.OPTION,) if options.multi_user else ()
        control = Control((options.control, *arguments), names, own_shm, told.wake.set)
        keeper = Keeper(names, control, shares, report, remembered, options)
        try:
            keeper.keep(told.stop, told.wake)
            report.stopping(control.pid, options.drain + STOP_SECONDS)
            control.quit(options.drain)
        finally:
            control.kill()
        folders.clean(names)
        paused = options.shared_while is not None and options.shared_while.exists()
        if not paused:  # containers have the shared memory, and nobody else may take the GPU
            folders.unmount_shm(names)
    finally:
        if told.last or not paused:
            _give_back(remembered)


def _shares(nvml: Nvml, options: Options) -> Shares:
    for gpu in nvml.gpus()[0]:
        devices = {gpu.uuid: gpu.memory_total}
        devices.update({one.uuid: one.memory_total for one in nvml.mig_devices(gpu)})
        if options.device not in devices:
            continue
        if options.device == gpu.uuid and gpu.mig_current:
            raise NodeError(
                f"{gpu.uuid} is in MIG mode",
                hint="name one of its MIG devices, or switch the mode off",
            )
        return plan(
            options.replicas,
            devices[options.device],
            gpu.compute_capability,
            memory=options.memory,
            threads=options.threads,
            most=options.most,
            overcommit=options.overcommit,
            multi_user=options.multi_user,
        )
    raise NvmlError(NOT_FOUND, f"looking for {options.device}")


def _warn_of_others(nvml: Nvml, device: str) -> None:
    gpu = next(one for one in nvml.gpus()[0] if one.uuid == device)
    others = [one.pid for one in nvml.processes(gpu) if not one.name.endswith(SERVER)]
    if others:
        logs.warning(
            "processes without MPS are on the GPU, clients wait until they have ended",
            gpu=device,
            pids=others,
        )


def _give_back(remembered: Remembered) -> None:
    try:
        with open_nvml():
            remembered.give_back()
    except NvmlError as error:  # the next manager tries again
        logs.warning("the compute mode was not given back", cause=error)


class Keeper:
    """Keeps a control daemon up, with its limits in place."""

    def __init__(
        self,
        names: Names,
        control: Control,
        shares: Shares,
        report: Report,
        remembered: Remembered,
        options: Options,
    ) -> None:
        self._names, self._control = names, control
        self._shares, self._report = shares, report
        self._remembered = remembered
        self._interval, self._steady_after = options.interval, options.steady
        self._ready_since: float | None = None
        self._in_place = False  # the limits, as far as was read back

    def keep(self, stop: threading.Event, wake: threading.Event) -> None:
        """Return when it is told to stop."""
        failures = 0
        while not stop.is_set():
            try:
                self._bring_up()
                self._watch(stop, wake)
            except ControlError as error:
                self._control.kill()
                failures = 1 if self._steady() else failures + 1
                self._ready_since = None
                self._report.restarted()
                self._report.state(FAILED, problem=str(error))
                stop.wait(words.backoff(failures))

    def _steady(self) -> bool:
        since = self._ready_since
        return since is not None and time.monotonic() - since > self._steady_after

    def _bring_up(self) -> None:
        self._report.state(STARTING)
        folders.clean(self._names)
        self._control.start()
        self._remembered.daemon(self._control.pid)
        self._control.ask(words.SERVERS, START_SECONDS)
        self._set_limits()
        self._ready_since = time.monotonic()
        self._report.state(READY, self._control.pid)

    def _set_limits(self) -> None:
        self._in_place = False
        read_back = {}
        for setting in words.settings(self._shares.default):
            self._control.ask(setting.set)
            read_back[setting.name] = words.check(setting, self._control.ask(setting.get))
        self._in_place = True
        self._report.limits(read_back)

    def _watch(self, stop: threading.Event, wake: threading.Event) -> None:
        while True:
            answer = self._control.ask(words.poll())
            servers, kept = words.polled(answer, self._shares.default)
            self._report.alive()
            if not (kept and self._in_place):
                self._restore_limits()
            self._report.clients({pid: self._clients(pid) for pid in servers})
            wake.wait(self._interval)
            wake.clear()
            if stop.is_set():
                return
            if not self._control.pid:
                raise ControlError("the control daemon ended", cause=self._control.ending())

    def _restore_limits(self) -> None:
        """Set the limits again. That fails no client: the daemon goes on, only not as ready."""
        logs.warning("somebody changed the limits, setting them again")
        try:
            self._set_limits()
        except LimitNotTaken as error:
            self._report.state(FAILED, self._control.pid, str(error))
        else:
            self._report.state(READY, self._control.pid)

    def _clients(self, server: int) -> tuple[int, ...]:
        answer = self._control.ask(words.clients_of(server))
        return () if words.gone(answer) else words.pids(answer)
