# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs that are accepted as they are, which every look at a node reads: so without anything that tests them."""

from __future__ import annotations

import contextlib
import typing as t

from ..._base.gpu import Gpu, NvmlError
from ..._machine.host import Host
from ..._machine.nvml import faults
from ..._machine.nvml.load import firmware
from ..._machine.nvml.real import open_nvml
from ..._machine.nvml.within import LATE, within
from ..._node.gate import PATH as GATE
from ..._node.gate import GateReport, report_gate
from ..._node.machine import facts
from ..._repair.machine.cases import CaseFile, read_clock
from ..record import PATH, Identity, JudgedGpu, Unaccepted, judge_gpus, parse_record

ASKING = "reading the versions of the GPUs' firmware"


def read_identities(host: Host, addresses: t.Mapping[str, str]) -> t.Dict[str, Identity]:
    """Return the identities of GPUs, given by UUID with their PCI addresses, while NVML is open.

    Of one that does not answer, its driver and its slot are known.
    """
    driver = facts.loaded_driver(host)
    identities: t.Dict[str, Identity] = {}
    for uuid, address in addresses.items():
        identities[uuid] = Identity(driver.version if driver else "", pci=address)
        with contextlib.suppress(NvmlError):
            handle = faults.at(address)
            _index, serial = faults.named(handle)
            identities[uuid] = identities[uuid]._replace(
                serial=serial, **firmware(handle)._asdict()
            )
    return identities


def read_all_identities(host: Host) -> t.Dict[str, Identity]:
    """Return the identities of all GPUs that answer, by UUID.

    Raises:
        NvmlError: if NVML does not answer.
    """

    def ask() -> t.Dict[str, Identity]:
        with open_nvml() as nvml:
            return read_identities(host, {gpu.uuid: gpu.pci_bus_id for gpu in nvml.gpus()[0]})

    return within(LATE, ASKING, ask)


def judge_gpus_of(host: Host, gpus: t.Sequence[Gpu]) -> t.Tuple[JudgedGpu, ...]:
    """Return GPUs with what the record says of them, while NVML is open; none if no GPU was ever tested.

    Raises:
        NodeError: if a record is damaged.
    """
    text = host.read(PATH)
    if text is None:
        return ()
    identities = read_identities(host, {gpu.uuid: gpu.pci_bus_id for gpu in gpus})
    return judge_gpus(parse_record(text), identities, CaseFile(host).read(), read_clock())


def unaccepted_of(host: Host, gpus: t.Sequence[Gpu]) -> Unaccepted:
    """Return the GPUs that are not accepted as they are, while NVML is open; none if no GPU was ever tested.

    Raises:
        NodeError: if a record is damaged.
    """
    return Unaccepted.from_gpus(judge_gpus_of(host, gpus))


def judge_all_gpus(host: Host) -> t.Tuple[JudgedGpu, ...]:
    """Return the same of all GPUs that answer.

    Raises:
        NodeError: if a record is damaged, or NVML does not answer.
    """

    def ask() -> t.Tuple[JudgedGpu, ...]:
        with open_nvml() as nvml:
            return judge_gpus_of(host, nvml.gpus()[0])

    return within(LATE, ASKING, ask) if host.exists(PATH) else ()


def read_gate_report(host: Host) -> GateReport:
    """Return what the gate of the node holds.

    Raises:
        NodeError: if its file is damaged.
    """
    return report_gate(host.read(GATE), facts.boot_id(host))
