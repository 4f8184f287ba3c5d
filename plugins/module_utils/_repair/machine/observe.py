# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node before a repair: the signs of its GPUs and of its kernel, the earlier attempts, and the pods of each GPU."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.errors import NodeError
from ..._base.gpu import NvmlError
from ..._machine.host import Host
from ..._node.machine import facts
from ..._node.machine.quarantine import QuarantineFile
from ..._node.quarantine import Quarantine
from ..._node.users.allocated import Allocation, places
from ..._node.users.machine import allocated
from ..case import Boot, RepairCases
from ..plan import RepairGpu, RepairObservation
from ..signs import ANSWERS_BY_ERROR, GpuSigns, connected_gpus
from . import cases as case_file
from . import observe_node, observe_nvml
from .observe_nvml import NvmlAnswer

NO_DRIVER = "no driver of NVIDIA's is loaded"
Pods = t.Mapping[str, t.Tuple[str, ...]]


class RepairSettings(t.NamedTuple):
    """The seconds of the kernel's log that are read, and the number of GPUs that the node is to have."""

    window: float
    gpu_count: int = -1


class _Readings(t.NamedTuple):
    """All that was read, by PCI address where it is of GPUs."""

    architectures: t.Mapping[str, str]  # of the GPUs on the bus
    asked: t.Mapping[str, NvmlAnswer]
    uuids: t.Mapping[str, str]
    log: observe_node.Log
    quarantine: Quarantine
    cases: RepairCases
    boot: Boot

    def uuid(self, address: str) -> str:
        """Return the UUID of the GPU at an address, or the address where nobody knows it."""
        devices = self.asked.get(address, NvmlAnswer()).devices
        if devices and devices.gpu.uuid:
            return devices.gpu.uuid
        recorded = {entry.pci: uuid for uuid, entry in self.quarantine.gpus.items() if entry.pci}
        recorded.update({case.pci: uuid for uuid, case in self.cases.gpus.items() if case.pci})
        return self.uuids.get(address) or recorded.get(address, address)

    def fenced_by(self, uuid: str) -> str:
        """Return who has set a GPU aside, itself or with its node; empty where nobody has."""
        entry = self.quarantine.of(uuid)
        return entry.author if entry else ""


def observe(host: Host, settings: RepairSettings) -> RepairObservation:
    """Return the node and its GPUs, with a problem where they can't be judged.

    Raises:
        NodeError: if a file of gpu.node is damaged.
    """
    current_time, boot = case_file.read_clock(), case_file.observe_boot(host)
    cases = case_file.CaseFile(host).read()
    architectures = {gpu.address: gpu.architecture for gpu in facts.gpus(host)}
    driver = facts.loaded_driver(host)
    missing = facts.recorded_gpus(host, architectures, settings.gpu_count).missing
    nothing = RepairObservation(cases=cases, boot=boot, current_time=current_time)
    if driver is None:
        problem = NO_DRIVER if architectures or missing else ""
        return dataclasses.replace(nothing, problem=problem)
    uuids = {address: gpu.uuid for address, gpu in observe_node.driver_gpus(host).items()}
    try:
        asked = observe_nvml.ask(uuids)
    except NvmlError as error:
        return dataclasses.replace(nothing, problem=str(error))
    log = observe_node.log(host, current_time, current_time - settings.window)
    uuids = {**log.logged.uuids, **{address: uuid for address, uuid in uuids.items() if uuid}}
    quarantine = QuarantineFile(host).read()
    readings = _Readings(architectures, asked, uuids, log, quarantine, cases, boot)
    warnings = list(log.warnings)
    pods: Pods = {}
    try:
        pods = _pods(readings, allocated.observe(host))
    except NodeError as error:
        warnings.append(str(error))
    gpus = [_gpu(readings, address, pods.get(address, ())) for address in (*asked, *missing)]
    gpus += _absent_gpus(readings, gpus)
    fabric = observe_node.fabric(host, current_time)
    resets = [cases.reset_at(gpu.uuid) for gpu in gpus if not gpu.replaced_by]
    branch = int(driver.version.partition(".")[0])
    node = dataclasses.replace(
        observe_node.node(host, asked.values(), branch, fabric),
        fabric_restarted=fabric.restarted > max(resets, default=0.0),
        sxids=log.logged.sxids(since=min(resets, default=0.0)),
    )
    warnings += [
        f"the GPU at {address} can't be asked for signs of faults: {gpu.error}"
        for address, gpu in asked.items()
        if gpu.error and gpu.error.code not in ANSWERS_BY_ERROR
    ]
    return RepairObservation(node, tuple(gpus), cases, boot, current_time, warnings=tuple(warnings))


def _gpu(readings: _Readings, address: str, pods: t.Tuple[str, ...]) -> RepairGpu:
    uuid, asked = readings.uuid(address), readings.asked.get(address, NvmlAnswer())
    case = readings.cases.gpus.get(uuid)
    links = {at: gpu.links.peers if gpu.links else None for at, gpu in readings.asked.items()}
    peers = connected_gpus(address, links)
    signs = GpuSigns(
        uuid,
        architecture=readings.architectures.get(address, ""),
        present=address in readings.architectures,
        answer=asked.answer,
        signs=asked.signs,
        xids=readings.log.logged.xids(address, since=readings.cases.reset_at(uuid)),
        attempts=case.counted_attempts(readings.boot) if case else (),
        peers=None if peers is None else tuple(map(readings.uuid, peers)),
    )
    serial = asked.serial or (case.serial if case else "")
    return RepairGpu(signs, address, serial, asked.number, readings.fenced_by(uuid), pods)


def _absent_gpus(readings: _Readings, gpus: t.Sequence[RepairGpu]) -> t.List[RepairGpu]:
    """Return the GPUs of open cases and of the quarantine that the driver does not have any more."""
    cases = readings.cases.gpus
    addresses = {uuid: entry.pci for uuid, entry in readings.quarantine.gpus.items()}
    addresses.update({uuid: case.pci for uuid, case in cases.items() if case.is_open})
    present = {gpu.uuid for gpu in gpus}
    absent = []
    for uuid, address in sorted(addresses.items()):
        if uuid not in present:
            successors = [gpu.uuid for gpu in gpus if gpu.pci == address and gpu.signs.present]
            case = cases.get(uuid)
            attempts = case.counted_attempts(readings.boot) if case else ()
            absent.append(
                RepairGpu(
                    GpuSigns(uuid, present=False, attempts=attempts),
                    address,
                    case.serial if case else "",
                    fenced_by=readings.fenced_by(uuid),
                    replaced_by="".join(successors[:1]),
                )
            )
    return absent


def _pods(readings: _Readings, allocations: t.Iterable[Allocation]) -> Pods:
    """Return the pods and claims by the PCI addresses of their GPUs.

    An allocation that is on none of the GPUs that answer is on each that does not.
    """
    known = [gpu.devices for gpu in readings.asked.values() if gpu.devices]
    addresses = {gpu.devices.gpu.uuid: at for at, gpu in readings.asked.items() if gpu.devices}
    silent = {address for address, gpu in readings.asked.items() if not gpu.devices}
    pods: t.Dict[str, t.Dict[str, None]] = {}
    for allocation in allocations:
        own = {addresses[place.gpu] for place in places(allocation, known)}
        named = {at for at in silent if readings.uuids.get(at, "?") in allocation.device}
        for address in own or named or silent:
            pods.setdefault(address, {})[f"{allocation.namespace}/{allocation.pod}"] = None
    return {address: tuple(names) for address, names in pods.items()}
