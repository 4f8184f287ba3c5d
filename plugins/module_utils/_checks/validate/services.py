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

    wanted: t.FrozenSet[str] = frozenset()
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
    faults = list(filter(None, (one.fault for one in units)))
    bad = " ".join(one.name for one in units if one.fault)
    step = f"systemctl enable --now {bad}, or see journalctl -u"
    return judged(SERVICES, "; ".join(faults), step)


def in_service(change: t.Optional[Change], own: str) -> Check:
    """Check that no change was left in the middle; ``own`` is the one that asks."""
    if change is None or (own and change.change == own):
        return Check(IN_SERVICE)
    return judged(IN_SERVICE, change.cause, change.way)


def holds(found: Holds) -> Check:
    """Check that the packages that were held are."""
    if not found.wanted:
        return skipped(HOLDS, "no package was put on hold")
    if found.held is None:
        return skipped(HOLDS, found.unknown)
    loose = sorted(found.wanted - found.held)
    words = f"an upgrade would take {', '.join(loose)}, which was on hold" if loose else ""
    return judged(HOLDS, words, "run the role gpu.node.nvidia_driver, which holds it again")


def labels(found: t.Optional[Labels], driver: str, *, required: bool, slow: bool = False) -> Check:
    """Check that a process labels the node, with what is so; ``required``: there must be a cluster by now.

    ``slow`` is that the driver is, which keeps that process as well.
    """
    log = f"see the log of {LABELS_UNIT}"
    if found is None:
        return judged(LABELS, "nothing keeps the node's labels up to date", log)
    if found.state == FAILING and slow:
        return skipped(LABELS, "the driver is slow")
    if found.state == FAILING:
        words = f"the node's labels are not kept up to date{because([found.problem])}"
        return judged(LABELS, words, log)
    if found.state == WAITING:
        words = f"the node is not labelled yet{because([found.problem])}"
        return judged(LABELS, words, f"join the node to its cluster; {log}", fails=required)
    told = found.labels.get(DRIVER_LABEL, driver)
    wrong = driver and told != driver
    words = f"{DRIVER_LABEL} says {told}, and {driver} is loaded" if wrong else ""
    return judged(LABELS, words, f"systemctl restart {LABELS_UNIT}")
