# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages, as whichever source of the node's package manager has them."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.packages.package import still_there
from ..._machine.packages.apt import OWN_SOURCES
from .. import adoption, branches, components
from ..names import FABRIC_PREFIX, NO_BRANCH, SUBNET, Names, Offer, Wanted, part
from ..select import check_components, siblings, wanted_type
from ..state import Desired, Observed
from .kernel import knows_nvidias_key
from .sources import Params, Part


class Packages(Part):
    """The packages of the driver, by the names that the node's family has."""

    # --- observe ---

    def observe(self, observed: Observed, wanted: Desired) -> Observed:
        """Add what the package manager knows."""
        manager = self._node.manager
        absent = wanted.state == "absent"
        packages = manager.packages()
        observed = dataclasses.replace(observed, packages=packages)
        names = components.extend(self._names(observed, wanted), wanted.components)
        observed = dataclasses.replace(observed, names=names)
        if not absent and wanted.components:
            check_components(observed, wanted.components, persistence=wanted.persistence)
        asks = not (absent or wanted.runfile)
        modules = self._node.family.asked(observed) if asks else set()
        asked = {
            *names.relevant,
            *wanted.components,
            *(names.headers_of(one) for one in (observed.kernel, *observed.newer)),
            names.tie.format(observed.kernel),
            *names.needs,
            *modules,
            *siblings(observed, ()),
            *(
                adoption.counterparts(observed, wanted, names, wanted_type(observed, wanted))
                if asks
                else ()
            ),
            *(components.ALL_DCGM if "dcgm" in wanted.components else ()),
        }
        asked = {name for name in asked if name and NO_BRANCH not in name}
        observed = dataclasses.replace(
            observed,
            policies=manager.policies(sorted(asked)) if asks else {},
            relations=manager.relations(sorted(modules)) if modules else {},
            interrupted=manager.interrupted(),
            sources=manager.sources(),
        )
        return self._components(observed, wanted) if asks else observed

    def _components(self, observed: Observed, wanted: Desired) -> Observed:
        """Add what depends on the driver's version, and what components have left that are no longer wanted."""
        names, record = observed.names, observed.record
        base = names.user_space[0]
        known = [observed.installed(base), branches.last(observed.gpus), names.branch]
        version = next(filter(None, [wanted.version, *known, observed.candidate(base)]), "")
        names = components.extend(names, wanted.components, version)
        left = components.dropped(names, wanted.components, record.requested)
        adopted = {part(name) for name in record.before}
        left = [name for name in left if observed.installed(name) and part(name) not in adopted]
        surplus: t.Tuple[str, ...] = ()
        if left and not observed.unfinished:
            along = record.packages - record.requested - {*names.relevant, *wanted.components}
            there = still_there(sorted(along), observed.packages)
            surplus = self._node.manager.leftover(left, there)
        return dataclasses.replace(observed, names=names, surplus=surplus)

    def _names(self, observed: Observed, wanted: Desired) -> Names:
        family, kernel = self._node.family, observed.kernel
        asks = not (wanted.state == "absent" or wanted.runfile)
        there = {name: one.version for name, one in observed.packages.items()}
        if asks:
            there = {name: one for name, one in there.items() if observed.installed(name)}
        ending = family.ending(there, observed.record, wanted)
        if not asks:
            return family.names(Offer(installed=there), Wanted(kernel=kernel, ending=ending))
        key = observed.signing_key
        ready = family.wants_precompiled(wanted.precompiled, there, key)
        fits = Wanted(
            wanted.version,
            wanted_type(observed, wanted),
            kernel,
            wanted.source == "repository",
            observed.gpus,
            nvswitch=observed.nvswitch,
            bridged=observed.bridged,
            ending=ending,
            precompiled=ready,
            newest=wanted.update,
            trusted=ready and knows_nvidias_key(self._node.host, key),
            signs=wanted.precompiled == "auto" and key is not None and key.state == "enrolled",
            kernels=observed.modules.kernels,
        )
        return family.names(self._offer(fits, there), fits)

    def _offer(self, wanted: Wanted, installed: t.Mapping[str, str]) -> Offer:
        manager, family = self._node.manager, self._node.family
        prefixes = [*([FABRIC_PREFIX] if wanted.nvswitch else []), *family.prefixes(wanted)]
        prefixes += [SUBNET] if wanted.bridged else []
        names = {name for prefix in prefixes for name in manager.known(prefix)}
        free = not any("nvidia" in name for name in installed)
        candidates = family.candidates(wanted.kernel)
        policies = manager.policies(candidates) if candidates else {}
        modules = family.modules(names)
        # What is there stays where no version is asked for.
        chooses = modules and (wanted.version or free)
        relations = manager.relations(modules) if chooses else {}
        parts = manager.components(modules) if modules and free and not wanted.version else {}
        return Offer(frozenset(names), policies, installed, relations, parts)

    # --- apply ---

    def enable(self, params: Params) -> None:
        """Enable components of the node's own sources."""
        self._node.added.remember(sources=True)
        self._node.host.write(OWN_SOURCES, params["text"], mode=0o644)

    def refresh(self, _params: Params) -> None:
        """Fetch the package lists."""
        self._node.refresh()
