# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs: all there, and partitioned as declared."""

from __future__ import annotations

import typing as t

from ..._accept.record import Unaccepted
from ..._base.errors import NodeError
from ..._base.gpu import Gpu, MigDevice, Process
from ..._base.text.shown import counted
from ..._node.gate import GateReport
from ..._node.gpu_record import NOT_RECORDED, Gpus
from ..._node.quarantine import EMPTY, Quarantine
from .check import FAILED as FAILED_CHECK
from .check import MOST, WARNING, Check, because, few, judged, skipped
from .daemon import MigReport

GPUS, QUARANTINE, ACCEPTANCE, MIG, MIG_BOOT = (
    "GPUs",
    "quarantine",
    "acceptance",
    "MIG",
    "MIG at boot",
)
FAILED = "failed"
AGAIN = "fix the cause, then run the playbook gpu.node.mig"


class Layout(t.NamedTuple):
    """The MIG layout that was declared: its name, how the GPUs differ from it, or why that is not known."""

    name: str
    differences: t.Tuple[str, ...] = ()
    problem: str = ""


class SetAside(t.NamedTuple):
    """What is in quarantine, which of it is elsewhere by now, and why it is not known."""

    quarantine: Quarantine = EMPTY
    elsewhere: t.Tuple[NodeError, ...] = ()
    problem: t.Optional[NodeError] = None


NOTHING_ASIDE = SetAside()


class NotAccepted(t.NamedTuple):
    """The GPUs that are not accepted as they are, or why that is not known; nothing where none was ever tested."""

    gpus: Unaccepted = Unaccepted()
    problem: t.Optional[NodeError] = None
    gate: GateReport = GateReport()


class GpuState(t.NamedTuple):
    """The GPUs of a node: those on the PCI bus, those that were recorded, and those that answer.

    ``lost`` says why others do not answer. ``mig_uuids`` are those of MIG devices. ``idle`` is a device that nobody
    uses, by its UUID; empty where there is none.
    """

    on_bus: int
    recorded: Gpus = NOT_RECORDED
    aside: SetAside = NOTHING_ASIDE
    unaccepted: NotAccepted = NotAccepted()
    answering: t.Tuple[Gpu, ...] = ()
    lost: t.Tuple[str, ...] = ()
    mig_uuids: t.Tuple[str, ...] = ()
    layout: t.Optional[Layout] = None
    idle: str = ""

    @property
    def devices(self) -> t.Tuple[str, ...]:
        """Return the UUIDs of the devices for containers: of a GPU in MIG mode these are its MIG devices only."""
        return (*(gpu.uuid for gpu in self.answering if not gpu.mig_current), *self.mig_uuids)


def idle_device(
    gpus: t.Sequence[Gpu],
    migs: t.Sequence[MigDevice],
    processes: t.Sequence[Process],
    used: t.Container[str],
) -> str:
    """Return a device that no process and no pod has, whole GPUs first; empty where there is none."""
    busy = {(process.gpu_uuid, process.gi_id) for process in processes}
    names = [gpu.uuid for gpu in gpus if not gpu.mig_current and (gpu.uuid, None) not in busy]
    names += [mig.uuid for mig in migs if (mig.gpu_uuid, mig.gi_id) not in busy]
    return next((name for name in names if name not in used), "")


def count(state: GpuState, expected: int = -1) -> Check:
    """Check that all GPUs of the bus answer, or where the user says how many there must be, that those do.

    ``expected`` is -1 where nobody says.
    """
    on_bus, answering, recorded = state.on_bus, len(state.answering), state.recorded
    complete, missing = answering == on_bus, str(recorded)
    if answering == expected or (complete and expected < 0 and not missing):
        return Check(GPUS)
    cause = f"{answering} of {on_bus} GPUs on the PCI bus answer{because(state.lost)}"
    if expected < 0 and missing:
        return judged(GPUS, missing if complete else f"{cause}; {missing}", recorded.next_step)
    if expected < 0:
        step = "see the kernel's log for the missing ones (journalctl -k -g NVRM)"
        return judged(GPUS, cause, step)
    step = "correct validate_gpu_count, or look for the missing GPUs with lspci -d 10de:"
    cause = "; ".join(filter(None, (cause, missing)))
    return judged(GPUS, f"validate_gpu_count asks for {expected}, and {cause}", step)


def count_without_aside(state: GpuState, expected: int) -> Check:
    """Check the count, with a warning only where it holds without GPUs that are set aside and do not answer."""
    check, recorded = count(state, expected), state.recorded
    answering = {gpu.pci_bus_id for gpu in state.answering}
    gone = {entry.pci for entry in state.aside.quarantine.gpus.values()} - answering
    gone &= {*recorded.there, *recorded.known}
    if check.holds or not gone:
        return check
    known, on_bus = (
        tuple(address for address in addresses if address not in gone)
        for addresses in (recorded.known, recorded.there)
    )
    remaining = state._replace(
        on_bus=len(on_bus), lost=(), recorded=Gpus(known, on_bus, recorded.meant)
    )
    holds = count(remaining, max(0, expected - len(gone)) if expected >= 0 else -1).holds
    return check._replace(state=WARNING) if holds else check


def quarantine(aside: SetAside) -> t.List[Check]:
    """Return what there is to say of what is set aside, which is meant to be and so no more than a warning."""
    if aside.problem:
        return [Check(QUARANTINE, FAILED_CHECK, *_parts(aside.problem))]
    named = {"the node": aside.quarantine.node} if aside.quarantine.node else {}
    entries = [f"{name} is {text}" for name, text in {**named, **aside.quarantine.gpus}.items()]
    if not entries:
        return []
    cause = "; ".join(
        [*entries[:MOST], *([f"and {len(entries) - MOST} more"] if entries[MOST:] else [])]
    )
    return [
        judged(QUARANTINE, cause, "run gpu.node.release for what is repaired", fails=False),
        *(judged(QUARANTINE, *_parts(moved), fails=False) for moved in aside.elsewhere),
    ]


def acceptance(state: NotAccepted) -> t.List[Check]:
    """Check that the GPUs of a node where some were tested under load are accepted: faults fail it, and a gate."""
    if state.problem:
        return [Check(ACCEPTANCE, FAILED_CHECK, *_parts(state.problem))]
    if state.gate.override:
        cause = f"an operator has let in GPUs that were not accepted: {state.gate.override}"
        return [judged(ACCEPTANCE, cause, "run gpu.node.accept", fails=False)]
    if state.gate.held:
        cause = f"the gate holds GPUs back{few(state.gate.held)}"
        return [
            judged(ACCEPTANCE, cause, "run gpu.node.accept; after a fault, gpu.node.repair first")
        ]
    faulty, untested = state.gpus
    if faulty:
        cause = f"the last test of {counted(len(faulty), 'GPU')} found faults{few(faulty)}"
        return [judged(ACCEPTANCE, cause, "run gpu.node.repair, then gpu.node.accept")]
    cause = f"{counted(len(untested), 'GPU')} not accepted{few(untested)}" if untested else ""
    return [judged(ACCEPTANCE, cause, "run gpu.node.accept", fails=False)] if untested else []


def _parts(error: NodeError) -> t.Tuple[str, str]:
    """Return what an error says without its next step, and that."""
    cause = ": ".join(filter(None, (error.message, error.cause)))
    return cause.rstrip(".") if error.hint else cause, error.hint


def layout(state: t.Optional[Layout], unread: str) -> Check:
    """Check that the GPUs are as the declared layout says; ``unread`` is why they could not be read."""
    if state is None:
        return skipped(MIG, "no MIG layout is declared")
    if state.problem:
        cause = f"the layout {state.name or 'that was declared'} can't be compared: {state.problem}"
        return judged(MIG, cause, AGAIN)
    if unread:
        return skipped(MIG, unread)
    if not state.differences:
        return Check(MIG)
    cause = f"the GPUs are not in the layout {state.name}{few(state.differences)}"
    return judged(MIG, cause, "run the playbook gpu.node.mig")


def at_boot(report: MigReport) -> Check:
    """Check that the layout was made at boot."""
    if not report.boot_state:
        return skipped(MIG_BOOT, "no layout was made at the last boot")
    failed = f"gpu-mig.service failed at boot{because(report.boot_problems)}"
    return judged(MIG_BOOT, failed if report.boot_state == FAILED else "", AGAIN)
