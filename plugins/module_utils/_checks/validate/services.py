# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What keeps the node as it is: units that are on, packages held, labels current, and no change half done."""

from __future__ import annotations

import typing as t

from ..._device_plugin.plan import LABELS_UNIT
from ..._node.in_service import Change
from .check import Check, because, judged, skipped
from .daemon import Labels

SERVICES, HOLDS, LABELS, IN_SERVICE = "services", "holds", "labels", "in service"
FAILING, WAITING = "failing", "waiting"
DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"


class Unit(t.NamedTuple):
    """A unit that must start at boot, not have failed and, where ``runs`` says so, be active; as systemd has it."""

    name: str
    enabled: str
    active: str
    runs: bool = True

    @property
    def fault(self) -> str:
        """Return what is wrong with it, empty where nothing is."""
        if self.active == "failed" or (self.runs and self.active != "active"):
            return f"{self.name} is {self.active or 'not there'}"
        on = self.enabled in ("enabled", "enabled-runtime", "static", "alias", "indirect")
        state = f"{self.enabled or 'not there'}: it does not start at boot"
        return "" if on else f"{self.name} is {state}"


class Holds(t.NamedTuple):
    """The packages that were put on hold, those that are, and why that is not known where it is not."""

    recorded: t.FrozenSet[str] = frozenset()
    held: t.Optional[t.FrozenSet[str]] = None
    unknown: str = ""


class ServiceState(t.NamedTuple):
    """The units of gpu.node, the packages on hold, and the change that the node is in the middle of."""

    units: t.Tuple[Unit, ...] = ()
    holds: Holds = Holds()
    change: t.Optional[Change] = None


def services(units: t.Sequence[Unit]) -> Check:
    """Check that what was set up is on."""
    if not units:
        return skipped(SERVICES, "nothing of gpu.node is on this node")
    faults = list(filter(None, (unit.fault for unit in units)))
    bad = " ".join(unit.name for unit in units if unit.fault)
    step = f"systemctl enable --now {bad}, or see journalctl -u"
    return judged(SERVICES, "; ".join(faults), step)


def in_service(change: t.Optional[Change], own: str) -> Check:
    """Check that no change was left in the middle; ``own`` is the one that asks."""
    if change is None or (own and change.change == own):
        return Check(IN_SERVICE)
    return judged(IN_SERVICE, change.cause, change.next_step)


def holds(state: Holds) -> Check:
    """Check that the packages that were held are."""
    if not state.recorded:
        return skipped(HOLDS, "no package was put on hold")
    if state.held is None:
        return skipped(HOLDS, state.unknown)
    loose = sorted(state.recorded - state.held)
    cause = f"an upgrade would take {', '.join(loose)}, which was on hold" if loose else ""
    return judged(HOLDS, cause, "run the role gpu.node.nvidia_driver, which holds it again")


def labels(state: t.Optional[Labels], driver: str, *, required: bool, slow: bool = False) -> Check:
    """Check that a process labels the node, with what is so; ``required``: there must be a cluster by now.

    ``slow`` is that the driver is, which keeps that process as well.
    """
    log = f"see the log of {LABELS_UNIT}"
    if state is None:
        return judged(LABELS, "nothing keeps the node's labels up to date", log)
    if state.state == FAILING and slow:
        return skipped(LABELS, "the driver is slow")
    if state.state == FAILING:
        cause = f"the node's labels are not kept up to date{because([state.problem])}"
        return judged(LABELS, cause, log)
    if state.state == WAITING:
        cause = f"the node is not labelled yet{because([state.problem])}"
        return judged(LABELS, cause, f"join the node to its cluster; {log}", fails=required)
    version = state.labels.get(DRIVER_LABEL, driver)
    wrong = driver and version != driver
    cause = f"{DRIVER_LABEL} says {version}, and {driver} is loaded" if wrong else ""
    return judged(LABELS, cause, f"systemctl restart {LABELS_UNIT}")
