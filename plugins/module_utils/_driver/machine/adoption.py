# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages of the driver that others have brought: what is taken over, and what goes or comes back at the end."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.packages.package import Change, Package, still_there
from ..._machine.packages.api import NoWay
from ..adoption import exchanged
from ..names import is_driver
from ..state import Observed, versions
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

    def earlier(
        self, packages: t.Mapping[str, Package], moved: t.Set[str]
    ) -> t.Dict[str, t.FrozenSet[str]]:
        """Return what the record gets to know of others' packages, as they are before a transaction.

        The first one finds which these are, and each that moves one for the first time its version.
        """
        record = self._node.added.record
        known, automatic = versions(record.earlier), record.automatic
        if not (known or record.packages):
            known = {
                name: one.version
                for name, one in packages.items()
                if one.installed and ("nvidia" in name or is_driver(name, one))
            }
            automatic |= self._node.manager.automatic() & known.keys() if known else frozenset()
        fresh = known.keys() & moved - record.exchanged
        known.update({name: packages[name].version for name in fresh})
        return {
            "earlier": frozenset(f"{name} {version}" for name, version in known.items()),
            "automatic": automatic,
            "exchanged": record.exchanged | (record.others.keys() | known.keys()) & moved,
        }

    def way_back(self, observed: Observed) -> Observed:
        """Add what the removal of our additions comes to, and what is put back in their place."""
        ours = still_there(observed.record.packages, observed.packages)
        ours += self._brought(observed, ours)
        back = self._back(ours, exchanged(observed))
        return dataclasses.replace(observed, removal=self._node.manager.removal(ours), back=back)

    def back(self, packages: t.Mapping[str, str], ours: t.Sequence[str]) -> Change:
        """Return the transaction that puts others' packages back in place of ours, with the stream that they are of."""
        record = self._node.added.record
        stream = (
            f"{self._node.family.module}:{record.stream_before}" if record.stream_before else ""
        )
        return Change(packages, ours, {}, record.holds, stream)

    def _brought(self, observed: Observed, ours: t.Collection[str]) -> t.List[str]:
        """Return what of the driver upgrades have brought since as a dependency of ours: modules of newer kernels."""
        known = {*ours, *observed.record.others}
        others = {
            name
            for name, one in observed.packages.items()
            if one.installed and name not in known and is_driver(name, one)
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
        try:
            simulation = self._node.manager.simulate(self.back(wanted, ours))
        except NoWay:
            return None
        return None if set(simulation.removed) - set(ours) else wanted
