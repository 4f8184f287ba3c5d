# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Reads the facts that labels show: from NVML, the PCI bus, and the machine's name."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from .._shared._base.gpu import TIMEOUT, NvmlError
from .._shared._machine.nvml import readings
from .._shared._machine.nvml.real import inventory, open_nvml
from .._shared._machine.nvml.within import outcome
from ..config.configuration import Config
from ..driver.nvml import preload
from ..model.inventory import GpuView, Inventory, Kind, Problem
from ..tools.chores import Worker
from .labels import Facts, readable, vgpu

D = TypeVar("D")
T = TypeVar("T")


class Reader:
    """Reads in a thread of its own, so that a driver that hangs does not stop the caller for more than ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._worker = Worker("nvml")
        self._answers: queue.SimpleQueue[Future[Facts]] = queue.SimpleQueue()

    def read(self, host_root: Path, config: Config) -> Facts:
        """Return what read() returns, with an NvmlError also if it takes longer, or the call before has not ended."""
        begun = not self._worker.busy
        if begun:
            answers = self._answers = queue.SimpleQueue()
            self._worker.start(lambda: answers.put(outcome(lambda: read(host_root, config))))
        try:
            answer = self._answers.get(timeout=self._seconds if begun else 0)
        except queue.Empty:
            raise NvmlError(TIMEOUT, "looking at the GPUs") from None
        return answer.result()


def read(host_root: Path, config: Config) -> Facts:
    """Return the facts about a node that its labels show. NVML is closed afterwards, so that it can be unloaded.

    Raises:
        NvmlError: if there is no driver to ask, or it failed.
    """
    preload(config.driver.roots)
    with open_nvml() as nvml:
        scanned = inventory(nvml)
        gpus = [each.gpu for each in scanned.gpus]
        migs = [mig for each in scanned.gpus for mig in each.migs]
        attributes = {mig.uuid: _or_none(readings.attributes, mig) for mig in migs}
        cliques = {gpu.uuid: _or_none(readings.clique, gpu) for gpu in gpus}
        cuda = nvml.cuda_version()
    folders = {gpu.uuid: host_root / "sys/bus/pci/devices" / gpu.pci_bus_id for gpu in gpus}
    spaces = {uuid: _content(folder / "config") for uuid, folder in folders.items()}
    views = []
    for each in scanned.gpus:
        problem = f"it can't be read: {each.error}" if each.error else ""
        views.append(
            GpuView(
                each.gpu,
                each.migs,
                problem=Problem(Kind.UNREADABLE, problem) if problem else None,
            )
        )
    machine = _content(host_root / config.gfd.machine_type_file.lstrip("/"))
    return Facts(
        Inventory(scanned.driver_version, tuple(views)),
        cuda,
        machine.decode(errors="replace").strip(),
        {uuid: _class(_content(folder / "class")) for uuid, folder in folders.items()},
        {uuid: attribute for uuid, attribute in attributes.items() if attribute},
        cliques,
        {uuid: vgpu(space) for uuid, space in spaces.items() if readable(space)},
    )


def _or_none(ask: Callable[[D], T | None], device: D) -> T | None:
    """Return an answer, None if a device does not give it, such as one that just went."""
    try:
        return ask(device)
    except NvmlError:
        return None


def _content(path: Path) -> bytes:
    """Return a file's bytes, none if it can't be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _class(text: bytes) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0
