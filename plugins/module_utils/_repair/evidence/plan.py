# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan: one archive, unless there is one of the same case, stage and boot, and room for it by the oldest."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import InputError
from ..._base.steps import Plan, Step
from ..._base.text.shown import counted
from ..._base.text.strict import written
from ..case import RepairCase
from ..selection import gpus_named
from .state import (
    FULL,
    NEVER,
    RMA,
    Archive,
    EvidenceGpu,
    EvidenceOptions,
    EvidenceState,
)

COLLECT, REMOVE = "collect", "remove"
NODE = "node"  # the case of what is about no GPU alone and has none
NO_BOOT = "00000000"
DAY = 24 * 3600.0
UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,80}")
ANY = "a UUID, PCI address, serial number or index of a GPU of this node"


class Decision(t.NamedTuple):
    """The archive that is asked for, or there already, with its GPUs; and from when on the kernel's log is."""

    archive: Archive
    there: bool
    gpus: t.Tuple[EvidenceGpu, ...]
    since: float


def select_gpus(names: t.Sequence[str], state: EvidenceState) -> t.Tuple[EvidenceGpu, ...]:
    """Return the GPUs that are named, without names all that the node has.

    Raises:
        InputError: if the node can't have one of them.
    """
    present = []
    for gpu in state.gpus:
        case = state.cases.gpus.get(gpu.uuid)
        if gpu.answers or gpu.pci in state.silent or (case and case.is_open):
            present.append(gpu)
    if not names:
        return tuple(present)
    selected: t.Dict[t.Tuple[str, str], EvidenceGpu] = {}
    for name in map(str.strip, names):
        named = gpus_named(name, state.gpus, dict(enumerate(present)))[:1]
        if not named and UUID.fullmatch(name) and (state.silent or not state.gpus):
            named = [EvidenceGpu(name)]  # it may be one that does not answer
        if not named:
            known = ", ".join(str(gpu) for gpu in state.gpus[:16]) or "none is found"
            raise InputError.of("gpus", name, f"{ANY}: {known}")
        selected.update((gpu[:2], gpu) for gpu in named)
    return tuple(selected.values())


def decide(state: EvidenceState, options: EvidenceOptions, current_time: float) -> Decision:
    """Return the archive that is asked for. ``current_time`` is in seconds since 1970.

    Raises:
        InputError: if there can't be such an archive.
    """
    gpus = select_gpus(options.gpus, state)
    if options.stage == RMA and len(gpus) != 1:
        expected = "one GPU with stage rma: each has a file of its own"
        raise InputError.of("gpus", list(options.gpus), expected)
    cases = {gpu.uuid: state.cases.gpus[gpu.uuid] for gpu in gpus if gpu.uuid in state.cases.gpus}
    boot = state.boot.replace("-", "")[:8] or NO_BOOT
    name = options.case or _name(gpus, cases, closed_too=options.stage == RMA)
    archive = Archive(name, options.stage, boot, _digits(current_time))
    there = archive.of_same(state.archives)
    since = options.since
    if since is None:  # a day before the oldest of the cases that are open, or before now
        begun = [case.since for case in cases.values() if case.is_open]
        since = max(0.0, min([current_time, *begun]) - DAY)
    if there and not options.force:
        return Decision(there[-1], True, gpus, since)
    return Decision(archive, False, gpus, since)


def _name(
    gpus: t.Sequence[EvidenceGpu], cases: t.Mapping[str, RepairCase], *, closed_too: bool
) -> str:
    """Return the name of what evidence is about: of an open case, of a GPU, or of the node."""

    def plain(text: str) -> str:
        letters = (char if char.isascii() and char.isalnum() else "-" for char in text)
        return "".join(letters)[:80] or NODE

    for uuid, case in cases.items():
        if case.is_open or closed_too:
            return f"{_digits(case.since)}-{plain(uuid)}"
    return plain(str(gpus[0])) if len(gpus) == 1 else NODE


def _digits(at: float) -> str:
    return written(at).replace("-", "").replace(":", "")


def plan(state: EvidenceState, options: EvidenceOptions, decision: Decision) -> Plan:
    """Return the steps."""
    steps = []
    if not decision.there:
        parts = [f"the kernel's log since {written(decision.since)}", "nvidia-smi -q"]
        parts += ["DCGM's answers"] if options.dcgm else []
        if options.bug_report != NEVER:
            full = ", then in full" if options.bug_report == FULL else ""
            parts.append(f"nvidia-bug-report.sh in safe mode{full}")
        parts += ["earlier archives"] if options.stage == RMA else []
        path = f"{options.path}/{decision.archive.file}"
        steps.append(Step(COLLECT, f"write {path} with {', '.join(parts)}"))
    # The oldest archives go that are too many; those that an open case names stay.
    free = [
        archive.file
        for archive in state.archives
        if archive != decision.archive and f"{options.path}/{archive.file}" not in state.named
    ]
    too_many = len(state.archives) + (not decision.there) - options.keep
    surplus = free[: max(0, too_many)]
    if surplus:
        summary = f"remove {counted(len(surplus), 'older archive')} from {options.path}"
        steps.append(Step(REMOVE, summary, {"files": surplus}))
    left = [archive.file for archive in state.archives if archive.file not in surplus]
    warnings = []
    if state.cases_problem:
        warnings.append(f"the history of repairs is left out: {state.cases_problem}")
    gpu = decision.gpus[0] if decision.gpus else EvidenceGpu()
    if options.stage == RMA and not gpu.serial:
        warnings.append(f"the serial number of GPU {gpu} is not known: look for it on the board")
    return Plan(
        steps=tuple(steps),
        before={"archives": [archive.file for archive in state.archives]},
        after={"archives": left if decision.there else [*left, decision.archive.file]},
        warnings=tuple(warnings),
    )
