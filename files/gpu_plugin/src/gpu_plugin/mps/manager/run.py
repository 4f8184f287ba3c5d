# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The manager of one device's MPS daemon: brings it up, watches it, and ends it."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ... import logs
from ..._shared._core.errors import NodeError
from ..._shared._core.gpu import NOT_FOUND, NvmlError
from ..._shared._nvml.api import Nvml
from ..._shared._nvml.real import open_nvml
from ..paths import Names, older_file
from ..shares import Shares
from . import folders, multi_user
from .control import Control
from .keeper import Keeper
from .options import Options
from .remembered import Remembered
from .report import FAILED, STARTING, Report

STOP_SECONDS: Final = 20.0  # what an end takes beside the clients


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
    names = Names(options.device, options.settings.root)
    told = Told()

    def stopping(number: int, _frame: object) -> None:
        told.last |= number == signal.SIGINT
        told.stop.set()
        told.wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopping)
    with folders.locked(names):
        if options.kept:  # a manager of an older release has ended, as the lock is ours
            Path(older_file(options.device, str(options.kept.parent))).unlink(missing_ok=True)
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
    asked = options.settings
    remembered = Remembered(names)
    remembered.end_leftover()
    folders.make(names)
    with open_nvml() as nvml:
        shares = _shares(nvml, options)
        shm_size = asked.shm_size or folders.default_shm_size(_sharable(nvml))
        if asked.multi_user:
            multi_user.require(options.control)
        if options.device.startswith("GPU-"):
            _warn_of_others(nvml, options.device)
            remembered.make_exclusive()
    paused = False
    try:
        own_shm = options.own_shm and folders.mount_shm(names, shm_size)
        report.shares(shares, own_shm, asked.multi_user)
        arguments = (multi_user.OPTION,) if asked.multi_user else ()
        control = Control((options.control, *arguments), names, own_shm, told.wake.set)
        keeper = Keeper(names, control, shares, report, remembered, options)
        try:
            keeper.keep(told.stop, told.wake)
            report.stopping(control.pid, asked.drain + STOP_SECONDS)
            control.quit(asked.drain)
        finally:
            control.kill()
        folders.clean(names)
        paused = options.kept is not None and options.kept.exists()
        if not paused:  # containers have these mounts, and nobody else may take the GPU
            folders.unmount(names)
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
        return options.settings.shares(devices[options.device], gpu.compute_capability)
    raise NvmlError(NOT_FOUND, f"looking for {options.device}")


def _sharable(nvml: Nvml) -> int:
    """Return how many devices could be shared: GPUs, and MIG devices in their place."""
    return sum(max(len(nvml.mig_devices(gpu)), 1) for gpu in nvml.gpus()[0])


def _warn_of_others(nvml: Nvml, device: str) -> None:
    gpu = next(one for one in nvml.gpus()[0] if one.uuid == device)
    others = [one.pid for one in nvml.processes(gpu)]
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
        logs.warning("the compute mode was not restored", cause=error)
