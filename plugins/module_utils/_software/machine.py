# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages at one version, held: what capabilities for such software have in common."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from .._base import distributions
from .._base.errors import NodeError, checked_timeout
from .._base.packages.package import Change, Record, still_there
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.packages.api import PackageManager
from .._node.machine.facts import os_release
from .._node.machine.recorded import Additions, package_manager
from .plan import REPAIR, SoftwareState

S = t.TypeVar("S", bound=SoftwareState[t.Any])
R = t.TypeVar("R", bound=Record)
Params = t.Mapping[str, t.Any]


class Software(t.Generic[S, R]):
    """Keeps packages installed at one version, and held.

    ``title`` and ``purpose`` are what errors say that is installed, ``instead`` is what else can be done on a system
    that is not known. ``rivals`` are why packages of others would go, and what to do then about these.
    """

    name: str
    title: str
    purpose: str
    instead: str
    rivals: t.Tuple[str, str]

    def __init__(self, host: Host, record: str, kind: t.Type[R], timeout: int) -> None:
        self._host, self._timeout = host, checked_timeout(timeout)
        self._added = Additions(host, record, kind)
        self._family = distributions.family(os_release(host))
        self._refreshed, self._note = False, ""
        self._actions: t.Dict[str, t.Callable[[Params], None]] = {
            "repair": lambda _params: self._manager.finish(self._added.record.packages),
            "refresh": self._refresh,
            "install": self._install,
            "hold": self._hold,
        }

    @functools.cached_property
    def _manager(self) -> PackageManager:
        if not self._family:
            raise NodeError(
                f"{self.title} can't be installed on this system",
                cause=f"/etc/os-release names none of {', '.join(distributions.FAMILIES)}",
                hint=f"install it by other means, or {self.instead}",
            )
        return package_manager(self._family, self._host, self._timeout, self.purpose, self.name)

    def _observed(
        self, kind: t.Type[S], names: t.Sequence[str], *, present: bool, **more: t.Any
    ) -> S:
        """Return the packages of some names as they are, with ``more`` of what the node has.

        It is asked what the sources have where they are to be ``present``, otherwise what a removal comes to.
        """
        manager, record = self._manager, self._added.record
        packages, known = manager.packages(), {*names, *record.packages}
        observed = kind(
            family=self._family,
            packages={name: packages[name] for name in known if name in packages},
            policies=manager.policies(names) if present else {},
            record=record,
            interrupted=manager.interrupted(),
            refreshed=self._refreshed,
            note=self._note,
            **more,
        )
        if present or not record.packages or observed.unfinished:
            return observed
        ours = still_there(record.packages, packages)
        return dataclasses.replace(observed, removal=manager.removal(ours))

    def _possible(self, planned: Plan) -> Plan:
        """Return a plan that the package manager can carry out.

        Raises:
            NodeError: if it can't, or packages of others would go.
        """
        steps = (step for step in planned.steps if step.action == "purge")
        purged = [name for step in steps for name in step.params["packages"]]
        for step in planned.steps:
            if step.action == "install" and step.params and REPAIR not in planned.steps:
                self._simulate(self._change(step.params), purged)
        warnings = self._manager.warnings if self._family else ()
        return dataclasses.replace(planned, warnings=(*planned.warnings, *warnings))

    def apply(self, step: Step) -> None:
        """Carry out one step."""
        self._actions[step.action](step.params)

    def _refresh(self, _params: Params) -> None:
        self._note = self._manager.update()
        self._refreshed = True

    def _change(self, params: Params) -> Change:
        return Change(params["packages"], params.get("remove", ()), {}, self._added.record.holds)

    def _simulate(self, change: Change, purged: t.Sequence[str] = ()) -> t.Tuple[str, ...]:
        """Return what would be new, once others are purged; refuse where packages of others would go."""
        change = change._replace(remove=(*change.remove, *purged))
        simulation = self._manager.simulate(change)
        lost = ", ".join(sorted(set(simulation.removed) - set(change.remove)))
        if lost:
            raise NodeError(
                f"the installation would remove {lost}; nothing was changed",
                cause=self.rivals[0],
                hint=self.rivals[1].format(lost),
            )
        return simulation.new

    def _install(self, params: Params) -> None:
        change = self._change(params)
        new = self._simulate(change)
        self._added.remember(packages=self._added.record.packages | set(new))
        self._manager.change(change)
        if change.remove:
            left = still_there(change.remove, self._manager.packages())
            gone = set(change.remove).difference(left)
            self._added.remember(packages=self._added.record.packages - gone)

    def _hold(self, params: Params) -> None:
        if params.get("release"):
            self._added.release(self._manager, params["release"])
        if params.get("hold"):
            self._added.hold(self._manager, params["hold"])

    def _take_back(self, packages: t.Sequence[str]) -> None:
        """Remove packages, and all holds of ours."""
        self._added.release(self._manager, self._added.record.holds)
        if packages:
            self._manager.purge(packages)
