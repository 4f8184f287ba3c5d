# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a device's MPS daemon is as it should be. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.mps.settings import TERMINATE, Offer
from .state import FAILED, READY, STOPPING, MpsState


@dataclass(frozen=True)
class Verdict:
    """The state of a device, and its problem.

    Attributes:
        problem: Why the device must not be allocated, empty if it may.
        busy: Whether clients are waited for, which may take as long as they like.
        other: Whether the daemon has other limits than the device should have now, though it was started with the
            same settings.
    """

    problem: str = ""
    busy: bool = False
    other: bool = False


KILLED = "its MPS manager was killed"


def judge(offer: Offer | None, observed: MpsState) -> Verdict:
    """Return the verdict about a device that is advertised in shares, or is no longer if ``offer`` is None."""
    if observed.state is None:
        return Verdict("its MPS control daemon is about to start" if offer else "")
    state, clients = observed.state["state"], observed.state["clients"]
    waited_for = "its last client has" if clients == 1 else f"its {clients} clients have"
    if offer is None:
        running = observed.running
        terminate = running is not None and running.on_busy == TERMINATE
        if clients and not terminate and state != STOPPING:
            return Verdict(f"it was shared by MPS, and {waited_for} not ended", busy=True)
        if state == FAILED and not observed.serving:
            return Verdict(f"it was shared by MPS: {observed.state['problem']}")
        return Verdict("the MPS control daemon that shared it is about to end")
    if state == STOPPING:
        return Verdict("its MPS control daemon is about to end")
    # It may well have failed as it is asked.
    serving = observed.serving and state in (READY, FAILED)
    suits = observed.suits(offer.settings)
    if serving and not (suits and offer.agrees(observed.state)):
        if clients and offer.settings.on_busy != TERMINATE:
            return Verdict(f"its limits change when {waited_for} ended", busy=True, other=suits)
        return Verdict("its MPS control daemon restarts with other limits", other=suits)
    if not observed.alive:
        failed = state == FAILED and not observed.serving
        problem = observed.state["problem"]
        return Verdict(f"its MPS control daemon failed: {problem}" if failed else KILLED)
    if state == READY and not observed.serving:
        return Verdict("its MPS control daemon ended")
    if state != READY or not observed.state["limits"]["read_back"]:
        problem = observed.state["problem"]
        return Verdict(f"its MPS control daemon is {state}{f': {problem}' if problem else ''}")
    return Verdict()
