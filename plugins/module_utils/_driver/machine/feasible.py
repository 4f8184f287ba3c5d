# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Plans that the package manager can carry out."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.errors import NodeError
from ..._base.packages.apt import unmet
from ..._base.packages.repository import BEFORE
from ..._base.steps import Plan, Step
from ..._machine.packages.api import NoHold, NoWay, OutOfOrder
from ..._machine.packages.apt_sources import OWN_SOURCES
from ..desired import Desired
from ..facts import DriverState
from ..plan import plan as plan_driver
from .packages import Packages
from .sources import Node, Part


class FeasiblePlans(Part):
    """Plans the driver, and asks the package manager before the first step whether it can carry that out."""

    def __init__(self, node: Node, packages: Packages, *, check_mode: bool) -> None:
        super().__init__(node)
        self._packages, self._check_mode = packages, check_mode

    def plan(self, state: DriverState, desired: Desired) -> Plan:
        """Plan what the package manager can carry out: without the prebuilt kernel modules that it refuses."""
        family = self._node.family
        found = plan_driver(family, state, desired, check_mode=self._check_mode)
        try:
            return self._asked(found, holds=not state.history.lacks_locking)
        except NoHold:
            offered = state.software.candidate(state.machine.traits.locking)
            if desired.prerequisites != "install" or not offered:
                raise
            return self.plan(state.with_history(lacks_locking=True), desired)
        except OutOfOrder:
            if state.software.interrupted:
                raise
            return self.plan(state.with_software(interrupted=True), desired)
        except NoWay as error:
            refused = family.unusable(state, found.steps, str(error))
            if not refused:
                raise
            return self._without(state, desired, refused, unmet(error.cause))

    def _without(
        self, state: DriverState, desired: Desired, refused: t.Sequence[str], words: str
    ) -> Plan:
        refused_before = state.history.refused
        try:
            state = state.with_history(refused=refused_before.union(refused))
            found = self.plan(state, desired)
        except NodeError as second:
            second.cause = f"{second.cause}; {', '.join(refused)} cannot be installed: {words}"
            raise
        left = f"{', '.join(sorted(refused))} can't be installed, and is left out: {words}"
        return dataclasses.replace(found, warnings=(left, *found.warnings))

    def _asked(self, found: Plan, *, holds: bool) -> Plan:
        """Return what the package manager makes of a plan, unless steps before decide what it knows then."""
        if not (self._node.previewed or BEFORE.isdisjoint(step.action for step in found.steps)):
            self._check_before(found.steps)
            return found
        stream = "".join(step.params["stream"] for step in found.steps if step.action == "stream")
        steps, warnings = [], [*found.warnings]
        opened = False  # what is in a repository that a step brings cannot be asked for yet
        for step in found.steps:
            if step.action == "hold" and step.params["hold"] and holds and not opened:
                self._node.manager.check_hold()
            if step.action == "install" and not opened:
                step, notes = self._packages.asked(step, stream)
                warnings += notes
                opened = bool(step.params.get("opens"))
            steps.append(step)
        return dataclasses.replace(found, steps=tuple(steps), warnings=tuple(warnings))

    def _check_before(self, steps: t.Iterable[Step]) -> None:
        """Refuse sources that the package manager could not read, and what it can't repair."""
        for step in steps:
            if step.action == "repair":
                self._node.manager.check_repair()
            elif step.action == "sources" and step.params["text"]:
                self._node.manager.check_sources({OWN_SOURCES: step.params["text"]})
            elif step.action == "repository":
                self._node.manager.check_sources(step.params["files"], step.params["stale"])
