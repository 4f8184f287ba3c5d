# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A device that is shared: its memory by the driver, its setup, and the changes to roll back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .._shared._base.errors import NodeError
from .._shared._base.gpu import DEFAULT, EXCLUSIVE_PROCESS, NOT_FOUND, NOT_SUPPORTED, Gpu, NvmlError
from .._shared._machine.nvml import readings
from .._shared._machine.nvml.real import Nvml, open_nvml
from ..model.mps.paths import SHM_IN_CONTAINER, Names
from ..model.mps.settings import SMALLEST_SHM, Settings, Shares
from ..tools import logs
from ..tools.files import VERSION, StateFile, StateUnusable, failing, read, started
from . import clients, control, folders

if TYPE_CHECKING:
    from .supervisor import Options


COARSE: Final = 1.0  # seconds, far more than file systems' times are late
NO_MODE: Final = (NOT_FOUND, NOT_SUPPORTED)  # of a GPU that went, or is in MIG mode


class Rollback:
    """The compute mode as it was, and the control daemon that was started."""

    def __init__(self, names: Names) -> None:
        self._file = StateFile(Path(f"{names.folder}.state"), mode=0o600)
        self._names = names
        self._mode = threading.Lock()  # it is looked at by another thread than the device's
        self._data: dict[str, Any] = {}

    def load(self) -> None:
        """Restore what an earlier manager recorded. Only a file that root alone writes may be trusted."""
        try:
            state = read(self._file.path, (VERSION,)) or {}
            self._data = {key: state[key] for key in ("daemon", "compute_mode") if key in state}
        except StateUnusable as error:
            logs.warning("what the last run left behind can't be read", cause=error)

    @property
    def left(self) -> tuple[int, str]:
        """The control daemon that an earlier manager left, with its own directory; 0 if there is none."""
        try:
            pid, began = self._data.get("daemon", (0, ""))
        except (TypeError, ValueError):
            pid, began = 0, ""
        if not began or started(pid) != began:
            return self._unnamed()
        if own := clients.own_folder(pid, self._names):
            return pid, own
        logs.warning(
            "a process that is not one of the collection's control daemons is left alone", pid=pid
        )
        return 0, ""

    def _unnamed(self) -> tuple[int, str]:
        """Return a control daemon that no file names, as after a full disk; that made its GPU exclusive."""
        if not any(Path(self._names.ipc).glob(f"{folders.OWN}*")):
            return 0, ""  # or each start would look at all processes
        pid, own = clients.daemon(self._names)
        if pid and self._names.device.startswith("GPU-"):
            self._data.setdefault("compute_mode", DEFAULT)
        return pid, own

    def daemon(self, pid: int) -> None:
        """Remember a control daemon by its number and start time."""
        self._data["daemon"] = (pid, started(pid))
        try:
            self._file.write(dict(self._data))
        except OSError as error:  # a full disk is no reason to end a daemon that has clients
            cause = error.strerror or error
            logs.warning("the next manager would not adopt this control daemon", cause=cause)

    def make_exclusive(self) -> None:
        """Admit only one process, the MPS server, to the GPU. To be used while NVML is open."""
        with self._mode:
            mode = readings.compute_mode(self._names.device)
            if "compute_mode" not in self._data:
                with failing(f"can't write {self._file.path}"):
                    # Before the change, so that no crash in between loses it.
                    self._file.write({**self._data, "compute_mode": mode})
                self._data["compute_mode"] = mode
            if mode != EXCLUSIVE_PROCESS:
                readings.set_compute_mode(self._names.device, EXCLUSIVE_PROCESS)

    def keep_exclusive(self) -> None:
        """Set the mode again if it was changed, unless it was put back. To be used while NVML is open."""
        with self._mode:
            if "compute_mode" not in self._data:
                return
            if readings.compute_mode(self._names.device) != EXCLUSIVE_PROCESS:
                readings.set_compute_mode(self._names.device, EXCLUSIVE_PROCESS)
                problem = "somebody changed the compute mode, setting EXCLUSIVE_PROCESS again"
                logs.warning(problem, gpu=self._names.device)

    def give_back(self) -> None:
        """Put the compute mode back as it was, and forget it.

        Raises:
            NodeError: if the driver refuses; the mode is remembered then.
        """
        with self._mode:
            if (mode := self._data.get("compute_mode")) is not None:
                try:
                    with open_nvml():
                        readings.set_compute_mode(self._names.device, mode)
                except NodeError as error:
                    if not (isinstance(error, NvmlError) and error.code in NO_MODE):
                        raise NodeError(
                            "its compute mode can't be given back", cause=str(error)
                        ) from error
            self._data.clear()
            self._file.remove()


class SharedMemory:
    """The /dev/shm of all containers of a device, of which none may read what those before it left."""

    def __init__(self, names: Names) -> None:
        self._path, self._tenant = Path(names.shm), 0
        self._device, self._problem = names.device, ""

    def tidy(self, daemon: int, servers: Iterable[int], end: Callable[[str], object]) -> None:
        """Clear it once no container has it any more and there is no client.

        A server has files there too. It is ended before, at a look before this one; the next client gets another.
        What can't be cleared is a warning: it takes memory, and no share.
        """
        problem = ""
        try:
            self._tidy(daemon, servers, end)
        except OSError as error:
            problem = error.strerror or str(error)
        if problem and problem != self._problem:
            logs.warning("shared memory of MPS can't be cleared", gpu=self._device, cause=problem)
        self._problem = problem

    def _tidy(self, daemon: int, servers: Iterable[int], end: Callable[[str], object]) -> None:
        moment = time.time()
        if not (os.path.ismount(self._path) and any(self._path.iterdir()) and clients.sees_all()):
            return
        system = self._path.stat().st_dev
        self._tenant = clients.tenant(system, SHM_IN_CONTAINER, daemon, self._tenant)
        if self._tenant:
            return
        if ended := [end(f"shutdown_server {pid}") for pid in servers]:
            logs.info("servers without clients and containers are ended", servers=len(ended))
        else:
            folders.clear(self._path, moment - COARSE)


@dataclass(frozen=True)
class Prepared:
    """A device that is set up. ``own_shm``: it has a shm of its own."""

    settings: Settings
    shares: Shares
    own_shm: bool


def strangers(gpu: str, daemon: int, servers: Iterable[int]) -> str:
    """Return which processes use a GPU without MPS, in words; empty if none does. To be used while NVML is open.

    Its ``servers``, known or new ones of the control daemon, get no context beside such a process, and serve nobody.
    """
    pids = readings.computing(gpu) if daemon else frozenset()
    if not pids or pids & {*servers, *clients.servers(daemon)}:
        return ""
    descriptions = clients.described(pids)
    return (
        f"processes without MPS keep clients from the GPU: {descriptions}" if descriptions else ""
    )


def shares(device: str, settings: Settings) -> Shares:
    """Return the shares of a device as it is now.

    Raises:
        NodeError: if it can't be shared like this, or is not there.
    """
    with open_nvml() as nvml:
        gpu, memory, slices = _find(nvml, device)
        return settings.shares(memory, gpu.compute_capability, slices)


def prepare(names: Names, settings: Settings, options: Options, rollback: Rollback) -> Prepared:
    """Make the folders of a device, and keep processes without MPS off it."""
    folders.make(names)
    with open_nvml() as nvml:
        gpu, memory, slices = _find(nvml, names.device)
        prepared_shares = settings.shares(memory, gpu.compute_capability, slices)
        # GPUs could be shared, and MIG devices in their place.
        sharable = sum(max(len(nvml.mig_devices(gpu_beside)), 1) for gpu_beside in nvml.gpus()[0])
        if settings.multi_user:
            control.require_multi_user(options.control)
        if names.device == gpu.uuid:
            if pids := [process.pid for process in nvml.processes(gpu)]:
                problem = "processes without MPS are on the GPU, clients wait until they have ended"
                logs.warning(problem, gpu=gpu.uuid, pids=pids)
            rollback.make_exclusive()
    # By default an equal part of half the node's memory, so that all devices together can't fill more.
    memory_total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = settings.shm_size or max(memory_total // 2 // max(sharable, 1), SMALLEST_SHM)
    return Prepared(settings, prepared_shares, options.own_shm and folders.mount_shm(names, size))


def _find(nvml: Nvml, device: str) -> tuple[Gpu, int, tuple[int, int]]:
    """Return the GPU that a device is, or is a part of, its memory in bytes, and its slices of those of the GPU."""
    for gpu in nvml.gpus()[0]:
        if device == gpu.uuid and gpu.mig_current:
            raise NodeError(
                f"{gpu.uuid} is in MIG mode",
                hint="name one of its MIG devices, or switch the mode off",
            )
        if device == gpu.uuid:
            return gpu, gpu.memory_total, (1, 1)
        for mig_device in nvml.mig_devices(gpu):
            if device == mig_device.uuid:
                return gpu, mig_device.memory_total, mig_device.slices
    raise NvmlError(NOT_FOUND, f"looking for {device}")
