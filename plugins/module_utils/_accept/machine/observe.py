# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs of a node before a load test, the record of earlier tests, and the signs of faults after one."""

from __future__ import annotations

import contextlib
import typing as t

from ..._base.gpu import Firmware, Gpu, NvmlError
from ..._machine.host import Host
from ..._machine.nvml import faults
from ..._machine.nvml.load import firmware
from ..._machine.nvml.readings import serial
from ..._machine.nvml.real import Nvml, open_nvml
from ..._machine.nvml.within import LATE, within
from ..._node.machine import facts
from ..._repair.machine.cases import CaseFile, read_clock
from ..._repair.machine.observe import RepairSettings
from ..._repair.machine.observe import observe as observe_signs
from ..._repair.reset import machine as reset_machine
from ..._repair.verdict import judge_gpu
from .. import plan
from ..plan import AcceptState, Unaccepted, identities, parse_cpus
from ..record import PATH, Acceptance, Identity, dump_record, identity_of, parse_record

LOCK = "/run/gpu-node/locks/acceptance.lock"
LOCK_SECONDS = 30.0
ASKING = "reading the versions of the GPUs' firmware"


def observe(host: Host) -> AcceptState:
    """Return the GPUs without their users, and the record.

    Raises:
        NodeError: if a record is damaged.
    """
    node = reset_machine.observe(host)
    driver = facts.loaded_driver(host)
    versions = read_firmware([gpu.pci for gpu in node.gpus]) if node.gpus else {}
    return AcceptState(
        node,
        identities(node, driver.version if driver else "", versions),
        parse_record(host.read(PATH)),
        CaseFile(host).read(),
        read_clock(),
    )


def read_firmware(addresses: t.Sequence[str]) -> t.Dict[str, Firmware]:
    """Return the firmware of the GPUs that answer, by their PCI addresses."""

    def ask() -> t.Dict[str, Firmware]:
        versions = {}
        with open_nvml():
            for address in addresses:
                with contextlib.suppress(NvmlError):
                    versions[address] = firmware(faults.at(address))
        return versions

    try:
        return within(LATE, ASKING, ask)
    except NvmlError:
        return {}


def unaccepted(host: Host, nvml: Nvml, gpus: t.Sequence[Gpu]) -> Unaccepted:
    """Return the GPUs that are not accepted as they are, none where no GPU of the node was ever tested.

    Raises:
        NodeError: if a record is damaged.
    """
    text = host.read(PATH)
    if text is None:
        return Unaccepted()
    driver = facts.loaded_driver(host)
    present: t.Dict[str, Identity] = {}
    for gpu in gpus:
        with contextlib.suppress(NvmlError):
            handle = nvml.handle(gpu)
            version = driver.version if driver else ""
            number, address = serial(handle), gpu.pci_bus_id
            present[gpu.uuid] = identity_of(version, number, address, firmware(handle))
    return plan.unaccepted(parse_record(text), present, CaseFile(host).read(), read_clock())


def unaccepted_gpus(host: Host) -> Unaccepted:
    """Return the same of all GPUs that answer.

    Raises:
        NodeError: if a record is damaged, or NVML does not answer.
    """

    def ask() -> Unaccepted:
        with open_nvml() as nvml:
            return unaccepted(host, nvml, nvml.gpus()[0])

    return within(LATE, ASKING, ask) if host.exists(PATH) else Unaccepted()


def write_entries(host: Host, entries: t.Mapping[str, Acceptance]) -> None:
    """Write the results of GPUs into the record.

    Raises:
        NodeError: if the record is damaged, or another process keeps its lock.
    """
    with host.lock(LOCK, timeout=LOCK_SECONDS):
        record = {**parse_record(host.read(PATH)), **entries}
        host.write(PATH, dump_record(record), mode=0o600)


def faults_since(host: Host, began: float) -> t.Dict[str, t.Tuple[str, ...]]:
    """Return what the signs and the kernel's log say against GPUs, by UUID, since a time in seconds since 1970.

    Raises:
        NodeError: if the GPUs can't be asked.
    """
    seen = observe_signs(host, RepairSettings(window=max(0.0, read_clock() - began)))
    verdicts = (judge_gpu(seen.node, gpu.signs) for gpu in seen.gpus)
    reasons = {
        verdict.uuid: tuple(reason.text for reason in verdict.reasons if reason.action.acts)
        for verdict in verdicts
    }
    return {uuid: texts for uuid, texts in reasons.items() if texts}


def near_cpus(host: Host, address: str) -> t.Tuple[int, ...]:
    """Return the CPUs of the NUMA node of a PCI address, empty if they are not known."""
    return parse_cpus(host.read(f"{facts.BUS}/{address}/local_cpulist"))
