# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages of the driver that others have brought: what is taken over, and what goes or comes back at the end."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._core.driver.adoption import found
from ..._core.driver.adoption.back import exchanged
from ..._core.driver.state import Observed
from ..._core.packages.package import Change, still_there
from ..._host.packages.api import NoWay
from .sources import Params, Part


class Adoption(Part):
    """Packages of the driver that were there before, or came without a run of the module."""

    before: t.Mapping[str, t.FrozenSet[str]] = {}  # what the record had before this run

    def adopt(self, params: Params) -> None:
        """Write down what is taken over, so that it can be put back."""
        added, record = self._node.added, self._node.added.record
        self.before = {"adopted": record.adopted, "automatic": record.automatic}
        names = params["packages"]
        automatic = self._node.manager.automatic() & set(names) if names else frozenset()
        added.remember(
            adopted=record.adopted | {f"{name} {version}" for name, version in names.items()},
            automatic=record.automatic | automatic,
            replaced=params["runfile"] or record.replaced,
        )

    def way_back(self, observed: Observed) -> Observed:
        """Add what the removal of our additions comes to, and what is put back in their place."""
        ours = still_there(observed.record.packages, observed.packages)
        ours += self._brought(observed, ours)
        back = self._back(ours, exchanged(observed))
        return dataclasses.replace(observed, removal=self._node.manager.removal(ours), back=back)

    def _brought(self, observed: Observed, ours: t.Collection[str]) -> t.List[str]:
        """Return what of the driver upgrades have brought since as a dependency of ours: modules of newer kernels."""
        known = {*ours, *observed.record.before}
        others = {
            name
            for name, one in observed.packages.items()
            if one.installed and name not in known and found.is_driver(name, one)
        }
        if not (ours and others):
            return []
        manager = self._node.manager
        return sorted(others & manager.automatic() & manager.dependencies(ours))

    def _back(
        self, ours: t.Sequence[str], wanted: t.Mapping[str, str]
    ) -> t.Optional[t.Mapping[str, str]]:
        """Return what is to be put back in place of ours, None where the package manager finds no way."""
        if not wanted:
            return {}
        change = Change(wanted, ours, {}, self._node.added.record.holds)
        try:
            simulation = self._node.manager.simulate(change)
        except NoWay:
            return None
        return None if set(simulation.removed) - set(ours) else wanted
