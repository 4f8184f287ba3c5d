# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A check: one thing that must be so on a node, and what to say of all of them."""

from __future__ import annotations

import typing as t

from ..._base.text.shown import counted

PASSED, FAILED, WARNING, SKIPPED = "passed", "failed", "warning", "skipped"
MOST = 4
ORDER = (PASSED, SKIPPED, WARNING, FAILED)


class Check(t.NamedTuple):
    """What was found of one thing; the cause is empty where it passed, the next step where nothing is to be done.

    A check that was skipped has the reason as its cause: the part is not there, or can't be looked at.
    """

    name: str
    state: str = PASSED
    cause: str = ""
    next_step: str = ""

    @property
    def holds(self) -> bool:
        """Return whether nothing is wrong."""
        return self.state != FAILED

    def __str__(self) -> str:
        text = f"{self.name}: {self.cause}"
        return f"{text.rstrip('.')}. Next step: {self.next_step}" if self.next_step else text

    def describe(self) -> t.Dict[str, t.Any]:
        """Return it as a user is shown it."""
        return {**self._asdict(), "holds": self.holds}


def judged(name: str, cause: str, next_step: str, *, fails: bool = True) -> Check:
    """Return a check that passes where there is no cause against it; where it does not fail by one, it warns."""
    return Check(name, FAILED if fails else WARNING, cause, next_step) if cause else Check(name)


def skipped(name: str, reason: str) -> Check:
    """Return a check that says nothing of the node, for a reason."""
    return Check(name, SKIPPED, reason)


def because(reasons: t.Iterable[str]) -> str:
    """Return reasons in brackets, to be put behind a cause and without their next steps; empty where there are none."""
    text = "; ".join(filter(None, (reason.partition(". Next step:")[0] for reason in reasons)))
    return f" ({text})" if text else ""


def few(reasons: t.Sequence[str]) -> str:
    """Return reasons in brackets, as many as fit into a message, and how many there are besides."""
    more = [f"and {len(reasons) - MOST} more"] if reasons[MOST:] else []
    return because([*reasons[:MOST], *more])


def of_state(checks: t.Iterable[Check], state: str) -> t.List[Check]:
    """Return the checks in a state."""
    return [check for check in checks if check.state == state]


def message(checks: t.Sequence[Check]) -> str:
    """Return what to say of the checks that fail, a line for each; empty where none does."""
    bad = [str(check) for check in of_state(checks, FAILED)]
    if len(bad) < 2:
        return "".join(bad)
    return "\n".join([f"{len(bad)} of {len(checks)} checks fail", *bad])


def describe_checks(results: t.Sequence[Check]) -> t.Dict[str, t.Any]:
    """Return what a module answers of its checks."""
    checks = [check.describe() for check in results]
    failed = [check.name for check in of_state(results, FAILED)]
    return {"checks": checks, "failed_checks": failed, "failure": message(results)}


def verdict(checks: t.Sequence[Check]) -> str:
    """Return in a few words whether the node is ready."""
    failed, notes = (len(of_state(checks, state)) for state in (FAILED, WARNING))
    if failed:
        return f"not ready, {failed} of {len(checks)} checks fail"
    return f"ready, {counted(notes, 'warning')}" if notes else "ready"


def lines(checks: t.Iterable[Check]) -> t.List[str]:
    """Return checks for a display, a line for each state: their names, and the reasons of those that were skipped."""
    named: t.Dict[str, t.Dict[str, t.List[str]]] = {}
    for check in checks:
        reason = check.cause if check.state == SKIPPED else ""
        named.setdefault(check.state, {}).setdefault(reason, []).append(check.name)
    return [
        f"{state}: " + "; ".join(", ".join(names) + because([why]) for why, names in groups.items())
        for state, groups in ((check, named[check]) for check in ORDER if check in named)
    ]
