# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The manager of one device's MPS daemon: brings it up, watches it, and ends it."""

from __future__ import annotations

import signal
import threading
from typing import Final

from .._shared._core.errors import NodeError
from .._shared._core.gpu import NOT_FOUND, Gpu, NvmlError
from .._shared._nvml.real import Nvml, open_nvml
from ..tools import logs
from ..tools.logs import notify
from . import control, folders
from .paths import Names
from .state import FAILED, STARTING, STOPPING, Report
from .supervisor import Options, Rollback, Supervisor

STOP_SECONDS: Final = 20.0  # what an end takes beside the clients


class Signals:
    """SIGTERM and SIGINT. ``last``: nobody will start this again, so no mode is to be left."""

    def __init__(self) -> None:
        self.stop, self.wake, self.last = threading.Event(), threading.Event(), False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, number: int, _frame: object) -> None:
        self.last |= number == signal.SIGINT
        self.stop.set()
        self.wake.set()


def run(options: Options) -> int:
    """Run a device's MPS daemon until SIGTERM, or SIGINT, which also gives the compute mode back.

    Returns the exit status.
    """
    names = Names(options.device, options.settings.root)
    signals = Signals()
    with folders.locked(names):
        report = Report(names)
        report.state(STARTING)
        try:
            _manage(options, names, report, signals)
        except (NodeError, OSError) as error:
            report.state(FAILED, problem=str(error))
            return 1
        report.remove()
    return 0


def _manage(options: Options, names: Names, report: Report, signals: Signals) -> None:
    asked = options.settings
    rollback = Rollback(names)
    rollback.end_leftover()
    folders.make(names)
    with open_nvml() as nvml:
        gpu, memory = _find(nvml, options.device)
        shares = asked.shares(memory, gpu.compute_capability)
        # GPUs could be shared, and MIG devices in their place.
        sharable = sum(max(len(nvml.mig_devices(one)), 1) for one in nvml.gpus()[0])
        shm_size = asked.shm_size or folders.default_shm_size(sharable)
        if asked.multi_user:
            control.require_multi_user(options.control)
        if options.device == gpu.uuid:
            if others := [one.pid for one in nvml.processes(gpu)]:
                problem = "processes without MPS are on the GPU, clients wait until they have ended"
                logs.warning(problem, gpu=gpu.uuid, pids=others)
            rollback.make_exclusive()
    paused = False
    try:
        own_shm = options.own_shm and folders.mount_shm(names, shm_size)
        report.shares(shares, own_shm, asked.multi_user)
        command = [options.control, *([control.MULTI_USER] if asked.multi_user else [])]
        daemon = control.Control(command, names, own_shm, signals.wake.set)
        try:
            supervisor = Supervisor(names, daemon, shares.default, report, rollback, options)
            supervisor.run(signals.stop, signals.wake)
            notify(f"EXTEND_TIMEOUT_USEC={round((asked.drain + STOP_SECONDS) * 1e6)}")
            report.state(STOPPING, daemon.pid)
            daemon.quit(asked.drain)
        finally:
            daemon.kill()
        folders.clean(names)
        paused = options.kept is not None and options.kept.exists()
        if not paused:  # containers have these mounts, and nobody else may take the GPU
            folders.unmount(names)
    finally:
        if signals.last or not paused:
            try:
                with open_nvml():
                    rollback.give_back()
            except NvmlError as error:  # the next manager tries again
                logs.warning("the compute mode was not restored", cause=error)


def _find(nvml: Nvml, device: str) -> tuple[Gpu, int]:
    """Return the GPU that a device is, or is a part of, and the device's memory in bytes."""
    for gpu in nvml.gpus()[0]:
        if device == gpu.uuid and gpu.mig_current:
            raise NodeError(
                f"{gpu.uuid} is in MIG mode",
                hint="name one of its MIG devices, or switch the mode off",
            )
        parts = {one.uuid: one.memory_total for one in nvml.mig_devices(gpu)}
        if memory := {gpu.uuid: gpu.memory_total, **parts}.get(device):
            return gpu, memory
    raise NvmlError(NOT_FOUND, f"looking for {device}")
