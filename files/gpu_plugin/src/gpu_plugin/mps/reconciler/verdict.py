# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a device's MPS daemon is as it should be, and what has to be done if not. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..managers import Observed
from ..settings import TERMINATE, Offer
from ..state import FAILED, READY, STOPPING


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
    return _leaving(observed) if offer is None else _offered(offer, observed)


def _offered(offer: Offer, observed: Observed) -> Verdict:
    if not observed.alive or observed.state is None:
        return Verdict(_why_gone(observed), Act.START)
    state = observed.state["state"]
    if state == STOPPING:
        return Verdict("its MPS daemon is about to end")
    reported = bool(
        observed.state["limits"]["asked"]
    )  # one that has just begun has not said it yet
    if not observed.suits(offer.settings) or (reported and not offer.agrees(observed.state)):
        clients = observed.state["clients"]
        if clients and offer.settings.on_busy != TERMINATE:
            return Verdict(f"its limits change when {_count(clients)} ended", busy=True)
        return Verdict("its MPS daemon restarts with other limits", Act.RESTART)
    if state == READY and not observed.serving:
        return Verdict("its MPS daemon ended")
    if state != READY or not observed.state["limits"]["read_back"]:
        problem = observed.state["problem"]
        return Verdict(f"its MPS daemon is {state}{f': {problem}' if problem else ''}")
    return Verdict()


def _leaving(observed: Observed) -> Verdict:
    if not observed.alive or observed.state is None:
        if observed.settings is None and observed.state is None:
            return Verdict()
        if observed.state is not None and observed.state["state"] == FAILED:  # it cleaned up then
            return Verdict("", Act.NOTHING if observed.settings is None else Act.STOP)
        return Verdict("the MPS daemon that shared it has to clean up", Act.START)
    clients = observed.state["clients"]
    terminate = observed.settings is not None and observed.settings.on_busy == TERMINATE
    if clients and not terminate and observed.state["state"] != STOPPING:
        return Verdict(f"it was shared by MPS, and {_count(clients)} not ended", busy=True)
    return Verdict("the MPS daemon that shared it is about to end", Act.STOP)


def _why_gone(observed: Observed) -> str:
    if observed.state is None:
        return "its MPS daemon is about to start"
    if observed.state["state"] == FAILED:
        return f"its MPS daemon failed: {observed.state['problem']}"
    return "its MPS daemon's manager was killed"


def _count(clients: int) -> str:
    return "its last client has" if clients == 1 else f"its {clients} clients have"
