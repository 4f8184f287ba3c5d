# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a device's MPS daemon is as it should be, and what has to be done if not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..settings import TERMINATE, Offer, Settings


class Act(Enum):
    """What is to be done with a device's manager."""

    NOTHING = "nothing"
    START = "start"
    RESTART = "restart"
    STOP = "stop"


@dataclass(frozen=True)
class Seen:
    """A device's manager: the settings it was last started with, and the state that it told.

    ``alive``: its process runs, ``serving``: that of its control daemon too. ``state`` is None where
    it told none, or took it back at its end. ``strange``: another release wrote the settings, and
    what is known of them is where its files are and what is with its clients.
    """

    settings: Settings | None
    state: Mapping[str, Any] | None
    alive: bool
    serving: bool
    strange: bool = False

    def suits(self, wanted: Settings) -> bool:
        """Tell whether it was started with these settings."""
        return self.settings is not None and not self.strange and self.settings.suits(wanted)


@dataclass(frozen=True)
class Verdict:
    """``problem`` says why the device must not be given to anybody, if so.

    ``busy``: clients are waited for, which may take as long as they like.
    """

    problem: str = ""
    act: Act = Act.NOTHING
    busy: bool = False


def judge(offer: Offer | None, seen: Seen) -> Verdict:
    """Return the verdict about a device that is offered in shares, or no longer where it is None."""
    return _leaving(seen) if offer is None else _offered(offer, seen)


def _offered(offer: Offer, seen: Seen) -> Verdict:
    if not seen.alive or seen.state is None:
        return Verdict(_why_gone(seen), Act.START)
    state = seen.state["state"]
    if state == "stopping":
        return Verdict("its MPS daemon is about to end")
    told = bool(seen.state["limits"]["asked"])  # one that has just begun has not said it yet
    if not seen.suits(offer.settings) or (told and not offer.agrees(seen.state)):
        clients = seen.state["clients"]
        if clients and offer.settings.on_busy != TERMINATE:
            return Verdict(f"its limits change when {_count(clients)} ended", busy=True)
        return Verdict("its MPS daemon restarts with other limits", Act.RESTART)
    if state == "ready" and not seen.serving:
        return Verdict("its MPS daemon ended")
    if state != "ready" or not seen.state["limits"]["read_back"]:
        problem = seen.state["problem"]
        return Verdict(f"its MPS daemon is {state}{f': {problem}' if problem else ''}")
    return Verdict()


def _leaving(seen: Seen) -> Verdict:
    if not seen.alive or seen.state is None:
        if seen.settings is None and seen.state is None:
            return Verdict()
        if seen.state is not None and seen.state["state"] == "failed":  # it cleaned up then
            return Verdict("", Act.NOTHING if seen.settings is None else Act.STOP)
        return Verdict("the MPS daemon that shared it has to clean up", Act.START)
    clients = seen.state["clients"]
    terminate = seen.settings is not None and seen.settings.on_busy == TERMINATE
    if clients and not terminate and seen.state["state"] != "stopping":
        return Verdict(f"it was shared by MPS, and {_count(clients)} not ended", busy=True)
    return Verdict("the MPS daemon that shared it is about to end", Act.STOP)


def _why_gone(seen: Seen) -> str:
    if seen.state is None:
        return "its MPS daemon is about to start"
    if seen.state["state"] == "failed":
        return f"its MPS daemon failed: {seen.state['problem']}"
    return "its MPS daemon's manager was killed"


def _count(clients: int) -> str:
    return "its last client has" if clients == 1 else f"its {clients} clients have"
