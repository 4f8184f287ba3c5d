# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a device's MPS daemon is as it should be, and what has to be done if not. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .settings import TERMINATE, Offer
from .state import FAILED, READY, STOPPING, Observed


class Act(Enum):
    """What is to be done with a device's manager."""

    NOTHING = "nothing"
    START = "start"
    RESTART = "restart"
    STOP = "stop"


@dataclass(frozen=True)
class Verdict:
    """``problem`` says why the device must not be given to anybody, if so.

    ``busy``: clients are waited for, which may take as long as they like.
    """

    problem: str = ""
    act: Act = Act.NOTHING
    busy: bool = False


def judge(offer: Offer | None, observed: Observed) -> Verdict:
    """Return the verdict about a device that is offered in shares, or no longer where it is None."""
    if not observed.alive or observed.state is None:
        return _gone(observed) if offer else _left(observed)
    state, clients = observed.state["state"], observed.state["clients"]
    waited_for = "its last client has" if clients == 1 else f"its {clients} clients have"
    if offer is None:
        terminate = observed.settings is not None and observed.settings.on_busy == TERMINATE
        if clients and not terminate and state != STOPPING:
            return Verdict(f"it was shared by MPS, and {waited_for} not ended", busy=True)
        return Verdict("the MPS daemon that shared it is about to end", Act.STOP)
    if state == STOPPING:
        return Verdict("its MPS daemon is about to end")
    limits = observed.state["limits"]  # one that has just begun has not said yet what is asked
    if not observed.suits(offer.settings) or (limits["asked"] and not offer.agrees(observed.state)):
        if clients and offer.settings.on_busy != TERMINATE:
            return Verdict(f"its limits change when {waited_for} ended", busy=True)
        return Verdict("its MPS daemon restarts with other limits", Act.RESTART)
    if state == READY and not observed.serving:
        return Verdict("its MPS daemon ended")
    if state != READY or not limits["read_back"]:
        problem = observed.state["problem"]
        return Verdict(f"its MPS daemon is {state}{f': {problem}' if problem else ''}")
    return Verdict()


def _gone(observed: Observed) -> Verdict:
    """Return the verdict where no manager runs, and one should."""
    why = "its MPS daemon's manager was killed"
    if observed.state is None:
        why = "its MPS daemon is about to start"
    elif observed.state["state"] == FAILED:
        why = f"its MPS daemon failed: {observed.state['problem']}"
    return Verdict(why, Act.START)


def _left(observed: Observed) -> Verdict:
    """Return the verdict where no manager runs, and none should."""
    failed = observed.state is not None and observed.state["state"] == FAILED
    if observed.settings is None and (failed or observed.state is None):
        return Verdict()
    if failed:  # it cleaned up then
        return Verdict("", Act.STOP)
    return Verdict("the MPS daemon that shared it has to clean up", Act.START)
