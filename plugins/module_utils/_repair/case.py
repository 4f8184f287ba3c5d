# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The cases of a node: what is known of each GPU's repair, how far it is, what was tried, and which run has the node.

``case_file`` reads and writes them. A step is written before it is made, so that a run that was cut off is finished by
the next one.
"""

from __future__ import annotations

import typing as t

from .._base.errors import NodeError
from .._base.text.strict import bounded, second, written
from .._node.quarantine import CASES
from .actions import Action
from .state import Attempt

PATH = CASES
LEASE_SECONDS = 12 * 3600.0
TOLERANCE = 300.0  # seconds that a clock may go back before its times are not trusted any more
MOST_CASES, MOST_ATTEMPTS, MOST_WORDS = 128, 16, 32

PLANNED, EVIDENCE, FENCED, STOPPED = "planned", "evidence", "fenced", "stopped"
RESET, RESTORED, PROVED, RELEASED, FAILED = "reset", "restored", "proved", "released", "failed"
# In their order; a repair may fail at each, and goes on from there.
STAGES = (PLANNED, EVIDENCE, FENCED, STOPPED, RESET, RESTORED, PROVED, RELEASED)


class Boot(t.NamedTuple):
    """What tells one start of the machine from another, and one load of the driver; each empty where not known."""

    boot_id: str = ""
    driver_load: str = ""


class Tried(t.NamedTuple):
    """Something that was tried, in seconds since 1970; ``result`` is empty until it is known."""

    action: Action
    at: float
    result: str = ""


class Case(t.NamedTuple):
    """The repair of a GPU, ``since`` in seconds since 1970.

    ``boot`` is that in which the verdict was found. ``stopped`` are the services to start again, in the order in which
    they were stopped. ``evidence`` is the archive's path on the node.
    """

    serial: str = ""
    pci: str = ""
    verdict: Action = Action.NONE
    reasons: t.Tuple[str, ...] = ()
    since: float = 0.0
    boot: Boot = Boot()
    stage: str = PLANNED
    stopped: t.Tuple[str, ...] = ()
    attempts: t.Tuple[Tried, ...] = ()
    evidence: str = ""

    @property
    def is_open(self) -> bool:
        """Tell whether the GPU was not given back yet."""
        return self.stage != RELEASED

    def tried(self, boot: Boot) -> t.Tuple[Attempt, ...]:
        """Return what counts for the verdict; ``boot`` is the present one.

        The last attempt does not where its run was cut off in it and the node still runs as it did: it is made again.
        """
        done = self.attempts
        if done and not done[-1].result and self.boot == boot:
            done = done[:-1]
        return tuple(Attempt(one.action, one.at) for one in done)


class Lease(t.NamedTuple):
    """Which run has the node's repair, ``since`` in seconds since 1970, and in which boot it took or renewed it."""

    holder: str
    since: float
    boot_id: str = ""


class Cases(t.NamedTuple):
    """All cases of a node by the GPUs' UUIDs, also of those that were given back, for as long as there is room."""

    lease: t.Optional[Lease] = None
    gpus: t.Mapping[str, Case] = {}

    @property
    def latest(self) -> float:
        """Return the newest time that is told, 0 where none is."""
        times = [one.since for one in self.gpus.values()]
        times += [tried.at for one in self.gpus.values() for tried in one.attempts]
        return max([*times, self.lease.since if self.lease else 0.0])

    def with_case(self, uuid: str, case: Case) -> Cases:
        """Return them with a case; the oldest that are closed make room for it."""
        gpus = {**self.gpus, uuid: case}
        closed = sorted(
            (one.since, name) for name, one in gpus.items() if not one.is_open and name != uuid
        )
        for _since, name in closed[: max(0, len(gpus) - MOST_CASES)]:
            del gpus[name]
        if len(gpus) > MOST_CASES:
            raise NodeError(f"{PATH} has {MOST_CASES} open cases, and takes no more", hint=FORGET)
        return self._replace(gpus=gpus)


FORGET = f"move {PATH} away and run again; what was tried before then no longer counts"
NOBODY = Cases()
STARTED_AGAIN = "the node or its driver was started again before the result was known"


def begin(cases: Cases, uuid: str, found: Case) -> Cases:
    """Return the cases with one for a GPU of which a verdict was found; ``found`` has what is known of it now.

    A case that is open stays the same one. It begins anew where its GPU was reset before and there is a fault again.
    """
    found = _bounded(found._replace(since=second(found.since)))
    before = cases.gpus.get(uuid)
    if before is None:
        return cases.with_case(uuid, found._replace(stage=PLANNED, attempts=(), stopped=()))
    if not before.is_open:
        fresh = found._replace(stage=PLANNED, attempts=before.attempts, stopped=())
        return cases.with_case(uuid, fresh)
    again = found.verdict.acts and before.stage not in STAGES[: STAGES.index(RESET)]
    told = found if found.verdict.acts else before
    case = before._replace(
        serial=found.serial or before.serial,
        pci=found.pci or before.pci,
        verdict=told.verdict,
        reasons=told.reasons,
        boot=found.boot,
        stage=PLANNED if again else before.stage,
    )
    if before.boot != found.boot and before.attempts and not before.attempts[-1].result:
        return outcome(cases.with_case(uuid, case), uuid, STARTED_AGAIN)
    return cases.with_case(uuid, case)


def advance(
    cases: Cases, uuid: str, stage: str, *, stopped: t.Sequence[str] = (), evidence: str = ""
) -> Cases:
    """Return the cases with a GPU's repair at a later stage, with the services that were stopped for it until then.

    ValueError: a stage that does not follow, such as a release of what was not proved.
    """
    case = _case(cases, uuid)
    if not _follows(case.stage, stage):
        raise ValueError(f"GPU {uuid}: {stage} does not follow {case.stage}")
    left = () if stage in (RESTORED, PROVED, RELEASED) else case.stopped
    changed = case._replace(
        stage=stage,
        stopped=tuple(dict.fromkeys((*left, *stopped))),
        evidence=evidence or case.evidence,
    )
    return cases.with_case(uuid, _bounded(changed))


def _follows(before: str, stage: str) -> bool:
    if stage == FAILED:
        return True
    if before == FAILED:
        return stage in STAGES[: STAGES.index(PROVED)]
    if stage == RELEASED:
        return before == PROVED
    return STAGES.index(stage) >= STAGES.index(before)


def started(cases: Cases, uuid: str) -> Cases:
    """Return the cases with all that was stopped for a GPU started again."""
    return cases.with_case(uuid, _case(cases, uuid)._replace(stopped=()))


def attempt(cases: Cases, uuid: str, action: Action, at: float) -> Cases:
    """Return the cases with an attempt that is about to be made."""
    case = _case(cases, uuid)
    return cases.with_case(
        uuid, case._replace(attempts=(*case.attempts, Tried(action, second(at)))[-MOST_ATTEMPTS:])
    )


def outcome(cases: Cases, uuid: str, result: str) -> Cases:
    """Return the cases with what came of a GPU's last attempt. ValueError: there is none, or its result is empty."""
    case = _case(cases, uuid)
    if not case.attempts or not result:
        raise ValueError(f"GPU {uuid} has no attempt that could have the result {result!r}")
    last = case.attempts[-1]._replace(result=bounded(result))
    return cases.with_case(uuid, case._replace(attempts=(*case.attempts[:-1], last)))


def withdraw(cases: Cases, uuid: str) -> Cases:
    """Return the cases without a GPU's last attempt, which was refused before it was made."""
    case = _case(cases, uuid)
    undone = bool(case.attempts) and not case.attempts[-1].result
    return cases.with_case(uuid, case._replace(attempts=case.attempts[:-1])) if undone else cases


def close(cases: Cases, uuid: str) -> Cases:
    """Return the cases with that of a GPU closed which is not in the node any more."""
    case = cases.gpus.get(uuid)
    return cases if case is None else cases.with_case(uuid, case._replace(stage=RELEASED))


def take(
    cases: Cases, holder: str, now: float, boot_id: str, *, instead_of: str = ""
) -> t.Tuple[Cases, str]:
    """Return the cases with the lease of a run, or unchanged and why it does not get it.

    A holder renews its own. ``instead_of`` is a holder that is known to be over. ValueError: nobody is to hold it.
    """
    if not holder:
        raise ValueError("a lease has a holder")
    lease = cases.lease
    refused = ""
    if lease is not None and lease.holder not in (bounded(holder), bounded(instead_of)):
        refused = held(cases, now, boot_id)
    if refused:
        return cases, refused
    return cases._replace(lease=Lease(bounded(holder), second(now), boot_id)), ""


def held(cases: Cases, now: float, boot_id: str) -> str:
    """Say who has the node, empty where nobody has. ``now`` and ``boot_id`` are the node's."""
    lease = cases.lease
    if lease is None:
        return ""
    by = f"{lease.holder} repairs the node since {written(lease.since)}"
    if lease.since > now + TOLERANCE:
        return f"{by}, which is in the future: the node's clock was set back"
    if now - lease.since > LEASE_SECONDS:
        return ""
    # A repair may reboot the node itself.
    rebooting = any(
        one.is_open
        and bool(one.attempts)
        and one.attempts[-1].action is Action.REBOOT
        and not one.attempts[-1].result
        for one in cases.gpus.values()
    )
    return by if lease.boot_id == boot_id or rebooting else ""


def give_back(cases: Cases, holder: str) -> Cases:
    """Return the cases without the lease of a run; another's stays."""
    ours = cases.lease is not None and cases.lease.holder == bounded(holder)
    return cases._replace(lease=None) if ours else cases


def _case(cases: Cases, uuid: str) -> Case:
    case = cases.gpus.get(uuid)
    if case is None or not case.is_open:
        raise ValueError(f"GPU {uuid} has no case")
    return case


def _bounded(case: Case) -> Case:
    def texts(values: t.Sequence[str]) -> t.Tuple[str, ...]:
        return tuple(bounded(one) for one in values[:MOST_WORDS])

    return case._replace(
        serial=bounded(case.serial),
        pci=bounded(case.pci),
        reasons=texts(case.reasons),
        stopped=texts(case.stopped),
        evidence=bounded(case.evidence),
    )
