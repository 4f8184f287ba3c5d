# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the package manager knows of the driver, and what removing our additions comes to."""

from __future__ import annotations

import typing as t

from ..._base.packages.package import (
    Change,
    still_there,
)
from ..._machine.packages.api import NoWay, OutOfOrder
from .. import branches
from ..desired import Desired
from ..facts import DriverState
from ..packages import adoption, components
from ..packages.names import FABRIC_PREFIX, NO_BRANCH, SUBNET, Names, Offer, Wanted, is_driver, part
from ..packages.versions import siblings
from .kernel import knows_nvidias_key
from .sources import Node, Part


class PackageFacts(Part):
    """The packages of the driver, and others' that were there before."""

    def observe(self, state: DriverState, wanted: Desired) -> DriverState:
        """Add what the package manager knows."""
        manager, present = self._node.manager, wanted.state == "present"
        asks = present and not wanted.runfile
        state = state.with_software(packages=manager.packages())
        names = components.extend(self._names(state, wanted, asks=asks), wanted.components)
        state = state.with_software(names=names)
        if present and wanted.components:
            components.check(state, wanted.components, persistence=wanted.persistence)
        modules = self._node.family.asked(state) if asks else set()
        taken = state.taken(wanted.adopt) if asks else ()
        kind = state.wanted_type(wanted.kernel_modules) if taken else ""
        counterparts = adoption.counterparts(state, taken, kind) if taken else ()
        headers = map(names.headers_of, (state.machine.kernel, *state.newer))
        asked = {*names.relevant, *wanted.components, *names.needs, *modules, *headers}
        asked |= {names.tie.format(state.machine.kernel), *siblings(state, ()), *counterparts}
        asked |= {*components.ALL_DCGM} if "dcgm" in wanted.components else set()
        asked = {name for name in asked if name and NO_BRANCH not in name}
        state = state.with_software(
            policies=manager.policies(sorted(asked)) if asks else {},
            relations=manager.relations(sorted(modules)) if modules else {},
            interrupted=manager.interrupted(),
            sources=manager.sources(),
        )
        state = state.with_history(unanswered={**manager.unanswered})
        return self._components(state, wanted) if asks else state

    def _components(self, state: DriverState, wanted: Desired) -> DriverState:
        """Add what depends on the driver's version, and what components have left that are no longer wanted."""
        names, record = state.software.names, state.history.record
        if "dcgm" in wanted.components:
            base = names.user_space[0]
            known = [
                state.software.installed(base),
                branches.last(state.machine.gpus),
                names.branch,
            ]
            version = next(
                filter(None, [wanted.version, *known, state.software.candidate(base)]), ""
            )
            names = components.extend(names, wanted.components, version)
        left = components.dropped(names, wanted.components, record.requested)
        adopted = {part(name) for name in record.before}
        left = [
            name for name in filter(state.software.installed, left) if part(name) not in adopted
        ]
        surplus: t.Tuple[str, ...] = ()
        if left and (state.machine.traits.apt or not state.software.unfinished):
            along = record.packages - record.requested - {*names.relevant, *wanted.components}
            there = still_there(sorted(along), state.software.packages)
            surplus = self._node.manager.leftover(left, there)
        return state.with_software(names=names, surplus=surplus)

    def _names(self, state: DriverState, wanted: Desired, *, asks: bool) -> Names:
        family, kernel, key = self._node.family, state.machine.kernel, state.machine.signing_key
        packages = state.software.packages.items()
        there = {name: one.version for name, one in packages if one.installed or not asks}
        ending = family.ending(there, state.history.record, wanted)
        if not asks:
            return family.names(Offer(installed=there), Wanted(kernel=kernel, ending=ending))
        ready = family.wants_precompiled(wanted.precompiled, there, key)
        fits = Wanted(
            wanted.version,
            state.wanted_type(wanted.kernel_modules),
            kernel,
            wanted.source == "repository",
            state.machine.gpus,
            nvswitch=state.machine.nvswitch,
            bridged=state.machine.bridged,
            ending=ending,
            precompiled=ready,
            newest=wanted.update,
            trusted=ready and knows_nvidias_key(self._node.host, key),
            signs=wanted.precompiled == "auto" and key is not None and key.state == "enrolled",
            kernels=state.loaded.modules.kernels,
        )
        return family.names(self._offer(fits, there), fits)

    def _offer(self, wanted: Wanted, installed: t.Mapping[str, str]) -> Offer:
        manager, family = self._node.manager, self._node.family
        prefixes = [*([FABRIC_PREFIX] if wanted.nvswitch else []), *family.prefixes(wanted)]
        prefixes += [SUBNET] if wanted.bridged else []
        names = frozenset(name for prefix in prefixes for name in manager.known(prefix))
        offered = Offer(names, installed=installed)
        candidates = family.candidates(offered, wanted)
        return offered._replace(policies=manager.policies(candidates) if candidates else {})

    def removal(self, state: DriverState) -> DriverState:
        """Add what the removal of our additions comes to, and what is put back in their place, None without a way."""
        manager, record = self._node.manager, state.history.record
        ours = still_there(record.packages, state.software.packages)
        known = {*ours, *record.others}
        others = {
            name
            for name, one in state.software.packages.items()
            if one.installed and name not in known and is_driver(name, one)
        }
        if ours and others:
            # Upgrades have brought modules of newer kernels since, as a dependency of ours.
            ours += sorted(others & manager.automatic() & manager.dependencies(ours))
        back: t.Optional[t.Mapping[str, str]] = adoption.exchanged(state)
        try:
            gone = manager.simulate(way_back(self._node, back, ours)).removed if back else ()
            back = None if set(gone) - set(ours) else back
        except OutOfOrder:
            raise
        except NoWay:
            back = None
            if text := adoption.modules_given_up(state):
                manager.warnings[text], back = None, {}
        return state.with_software(removal=manager.removal(ours), back=back)


def way_back(node: Node, packages: t.Mapping[str, str], ours: t.Sequence[str]) -> Change:
    """Return the transaction that puts others' packages back in place of ours, with the stream that they are of."""
    record = node.added.record
    stream = f"{node.family.traits.module}:{record.stream_before}" if record.stream_before else ""
    return Change(packages, ours, {}, record.holds, stream)
