# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is done: one archive, unless there is one of the same case, stage and boot, and room for it by the oldest."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from ..._base.steps import Plan, Step
from ..._base.text.shown import counted
from ..._base.text.strict import written
from ..case import RepairCase
from .selection import select
from .state import DAY, FULL, NEVER, NO_BOOT, RMA, Archive, Gpu, Observed, Wanted

COLLECT, REMOVE = "collect", "remove"
NODE = "node"  # the case of what is about no GPU alone and has none


class Decision(t.NamedTuple):
    """The archive that is wanted, or there already, with its GPUs; and from when on the kernel's log is."""

    archive: Archive
    there: bool
    gpus: t.Tuple[Gpu, ...]
    since: float


def decide(observed: Observed, wanted: Wanted, now: float) -> Decision:
    """Return what is wanted. ``now`` is in seconds since 1970. InputError: it can't be."""
    gpus = select(wanted.gpus, observed)
    if wanted.stage == RMA and len(gpus) != 1:
        expected = "one GPU with stage rma: each has a file of its own"
        raise InputError.of("gpus", list(wanted.gpus), expected)
    cases = {
        one.uuid: observed.cases.gpus[one.uuid] for one in gpus if one.uuid in observed.cases.gpus
    }
    boot = observed.boot.replace("-", "")[:8] or NO_BOOT
    made = written(now).replace("-", "").replace(":", "")
    name = wanted.case or _name(gpus, cases, closed_too=wanted.stage == RMA)
    archive = Archive(name, wanted.stage, boot, made)
    there = archive.of_same(observed.archives)
    since = wanted.since if wanted.since is not None else _since(cases.values(), now)
    if there and not wanted.force:
        return Decision(there[-1], True, gpus, since)
    return Decision(archive, False, gpus, since)


def _name(gpus: t.Sequence[Gpu], cases: t.Mapping[str, RepairCase], *, closed_too: bool) -> str:
    """Return the name of what evidence is about: of an open case, of a GPU, or of the node."""
    for uuid, case in cases.items():
        if case.is_open or closed_too:
            since = written(case.since).replace("-", "").replace(":", "")
            return f"{since}-{_plain(uuid)}"
    return _plain(str(gpus[0])) if len(gpus) == 1 else NODE


def _plain(text: str) -> str:
    """Return a name in the letters of a file's."""
    return "".join(one if one.isascii() and one.isalnum() else "-" for one in text)[:80] or NODE


def _since(cases: t.Iterable[RepairCase], now: float) -> float:
    """Return a day before the oldest of the cases that are open, or before now."""
    return max(0.0, min([now, *(one.since for one in cases if one.is_open)]) - DAY)


def plan(observed: Observed, wanted: Wanted, decision: Decision) -> Plan:
    """Return the steps."""
    steps = [] if decision.there else [_collect(wanted, decision)]
    surplus = _surplus(observed, wanted, decision)
    if surplus:
        summary = f"remove {counted(len(surplus), 'older archive')} from {wanted.path}"
        steps.append(Step(REMOVE, summary, {"files": surplus}))
    return Plan(
        steps=tuple(steps),
        before={"archives": [one.file for one in observed.archives]},
        after={"archives": _after(observed, decision, surplus)},
        warnings=_warnings(observed, wanted, decision.gpus),
    )


def _collect(wanted: Wanted, decision: Decision) -> Step:
    what = [f"the kernel's log since {written(decision.since)}", "nvidia-smi -q"]
    what += ["DCGM's answers"] if wanted.dcgm else []
    if wanted.bug_report != NEVER:
        full = ", then in full" if wanted.bug_report == FULL else ""
        what.append(f"nvidia-bug-report.sh in safe mode{full}")
    what += ["earlier archives"] if wanted.stage == RMA else []
    summary = f"write {wanted.path}/{decision.archive.file} with {', '.join(what)}"
    return Step(COLLECT, summary)


def _surplus(observed: Observed, wanted: Wanted, decision: Decision) -> t.List[str]:
    """Return the oldest archives that are too many; those that an open case names stay."""
    free = [
        one.file
        for one in observed.archives
        if one != decision.archive and f"{wanted.path}/{one.file}" not in observed.named
    ]
    too_many = len(observed.archives) + (not decision.there) - wanted.keep
    return free[: max(0, too_many)]


def _after(observed: Observed, decision: Decision, surplus: t.Sequence[str]) -> t.List[str]:
    left = [one.file for one in observed.archives if one.file not in surplus]
    return left if decision.there else [*left, decision.archive.file]


def _warnings(observed: Observed, wanted: Wanted, gpus: t.Sequence[Gpu]) -> t.Tuple[str, ...]:
    found = []
    if observed.cases_problem:
        found.append(f"the history of repairs is left out: {observed.cases_problem}")
    if wanted.stage == RMA and not gpus[0].serial:
        found.append(f"the serial number of GPU {gpus[0]} is not known: look for it on the board")
    return tuple(found)
