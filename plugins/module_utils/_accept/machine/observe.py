# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs of a node before a load test, the record of earlier tests, and the signs of faults after one."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError
from ..._base.gpu import NvmlError
from ..._machine.host import Host
from ..._machine.nvml.real import open_nvml
from ..._machine.nvml.within import LATE, within
from ..._node.machine import facts
from ..._repair.machine.cases import CaseFile, read_clock
from ..._repair.machine.observe import RepairSettings
from ..._repair.machine.observe import observe as observe_signs
from ..._repair.reset import machine as reset_machine
from ..._repair.reset.plan import AGAIN
from ..._repair.reset.state import ResetState
from ..._repair.verdict import judge_gpu
from ..plan import AcceptState, parse_cpus
from ..record import PATH, Acceptance, Identity, dump_record, parse_record
from .accepted import ASKING, read_identities

LOCK = "/run/gpu-node/locks/acceptance.lock"
LOCK_SECONDS = 30.0


def observe(host: Host) -> AcceptState:
    """Return the GPUs without their users, and the record.

    Raises:
        NodeError: if a record is damaged.
    """
    node = reset_machine.observe(host)
    return AcceptState(
        node,
        _identities(host, node),
        parse_record(host.read(PATH)),
        CaseFile(host).read(),
        read_clock(),
    )


def _identities(host: Host, node: ResetState) -> t.Dict[str, Identity]:
    """Return the identities of the GPUs by UUID, empty if NVML does not answer."""

    def ask() -> t.Dict[str, Identity]:
        with open_nvml():
            return read_identities(host, {gpu.uuid: gpu.pci for gpu in node.gpus})

    try:
        return within(LATE, ASKING, ask) if node.gpus else {}
    except NvmlError:
        return {}


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
    if seen.problem:
        raise NodeError(
            "the GPUs can't be asked after their test",
            cause=seen.problem,
            hint=AGAIN,
        )
    verdicts = (judge_gpu(seen.node, gpu.signs) for gpu in seen.gpus)
    reasons = {
        verdict.uuid: tuple(reason.text for reason in verdict.reasons if reason.action.acts)
        for verdict in verdicts
    }
    return {uuid: texts for uuid, texts in reasons.items() if texts}


def near_cpus(host: Host, address: str) -> t.Tuple[int, ...]:
    """Return the CPUs of the NUMA node of a PCI address, empty if they are not known."""
    return parse_cpus(host.read(f"{facts.BUS}/{address}/local_cpulist"))
