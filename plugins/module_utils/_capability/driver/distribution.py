# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver from packages, whichever source of the node's package manager has them."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._core.driver.packages.distributions import Distribution as Known
from ..._core.driver.packages.names import FABRIC_PREFIX, NO_BRANCH, SUBNET, Names, Offer, Wanted
from ..._core.driver.select import check_components, flavour
from ..._core.driver.state import Observed
from ..._core.errors import NodeError
from ..._core.packages.package import Change, Package, Simulation, held, still_there
from ..._core.steps import Step
from ..._host.packages.apt import OWN_SOURCES
from .kernel import building
from .node import Node, Params
from .rollback import carry_out

# What one flavour of the kernel modules leaves behind may go with it; nothing else may.
KERNEL_PREFIXES = ("nvidia-kernel-", "nvidia-open-kernel-")


class Distribution:
    """The packages of the driver, by the names that ``known`` has; ``replan`` observes and plans again."""

    def __init__(self, node: Node, known: Known, replan: t.Callable[[], t.Sequence[Step]]) -> None:
        self._node, self._known, self._replan = node, known, replan

    # --- observe ---

    def observe(self, observed: Observed) -> Observed:
        """Add what the package manager knows."""
        manager, wanted = self._node.manager, self._node.desired
        absent = wanted.state == "absent"
        packages = manager.packages()
        names = self._names(observed, packages)
        if not absent and wanted.components:
            check_components(names, wanted.components, persistence=wanted.persistence)
        asked = {*names.relevant, *wanted.components, names.headers.format(observed.kernel)}
        asked = {name for name in asked if NO_BRANCH not in name}
        observed = dataclasses.replace(
            observed,
            packages=packages,
            names=names,
            policies={} if absent or wanted.runfile else manager.policies(sorted(asked)),
            interrupted=manager.interrupted(),
            sources=manager.sources(),
        )
        if not absent or not observed.record or observed.unfinished:
            return observed
        ours = still_there(observed.record.packages, packages)
        return dataclasses.replace(observed, removal=manager.removal(ours))

    def _names(self, observed: Observed, packages: t.Mapping[str, Package]) -> Names:
        wanted, kernel = self._node.desired, observed.kernel
        if wanted.state == "absent" or wanted.runfile:
            there = {name: one.version for name, one in packages.items()}
            return self._known.packages(Offer(installed=there), Wanted(kernel=kernel))
        there = {name: one.version for name, one in packages.items() if one.installed}
        kind = flavour(wanted.kernel_modules, observed.gpus)
        named = wanted.source == "repository"
        switches = {"nvswitch": observed.nvswitch, "bridged": observed.bridged}
        fits = Wanted(wanted.version, kind, kernel, named, observed.gpus, **switches)
        return self._known.packages(self._offer(fits, there), fits)

    def _offer(self, wanted: Wanted, installed: t.Mapping[str, str]) -> Offer:
        manager = self._node.manager
        prefixes = [*self._known.prefixes, *([FABRIC_PREFIX] if wanted.nvswitch else [])]
        prefixes += [SUBNET] if wanted.bridged else []
        names = {name for prefix in prefixes for name in manager.known(prefix)}
        candidates = self._known.candidates(wanted.kernel)
        policies = manager.policies(candidates) if candidates else {}
        modules = self._known.modules(names)
        # What is there stays where no version is asked for.
        chooses = modules and (wanted.version or not any("nvidia" in name for name in installed))
        relations = manager.relations(modules) if chooses else {}
        return Offer(frozenset(names), policies, installed, relations)

    # --- apply ---

    def repair(self, _params: Params) -> None:
        """Finish what a transaction that was killed has left."""
        with building(self._node.host):
            self._node.manager.repair()

    def enable(self, params: Params) -> None:
        """Enable components of the node's own sources."""
        self._node.added.remember(sources=True)
        self._node.host.write(OWN_SOURCES, params["text"], mode=0o644)

    def refresh(self, _params: Params) -> None:
        """Fetch the package lists."""
        self._node.refresh_note = self._node.manager.update()
        self._node.refreshed = True

    def install(self, params: Params) -> None:
        """Bring the packages to their versions, in one transaction."""
        try:
            self._install(params)
        except NodeError as error:
            known = self._node.refreshed or " 404 " not in error.cause
            if known or "rolled_back" in error.details:
                raise
            # The lists are older than the mirror: what they name is gone from there.
            self.refresh({})
            for step in self._replan():
                if step.action == "install":
                    self._install(step.params)

    def _install(self, params: Params) -> None:
        manager, added = self._node.manager, self._node.added
        record = added.record
        change = Change(params["packages"], params["remove"], params["pins"], record.holds)
        before = manager.packages()
        simulation = self._simulate(change, before)
        new = set(simulation.new)
        requested = record.requested | (new & set(change.packages))
        added.remember(packages=record.packages | new, requested=requested)
        ours = {*change.packages, *change.remove}
        replaces = bool(ours & {*simulation.changed, *simulation.removed})
        try:
            carry_out(self._node.host, manager, change, before=before, replaces=replaces)
        except NodeError as error:
            if error.details.get("rolled_back"):
                added.remember(packages=record.packages, requested=record.requested)
            raise

    def _simulate(self, change: Change, packages: t.Mapping[str, Package]) -> Simulation:
        """Return what would be done; refuse when others' packages would go or lose their hold."""
        record = self._node.added.record
        simulation = self._node.manager.simulate(change)
        touched = {*simulation.new, *simulation.changed, *simulation.removed}
        others = held(touched - record.holds, packages)
        lost = sorted(
            name
            for name in set(simulation.removed) - set(change.remove) - record.packages
            if not name.startswith(KERNEL_PREFIXES)
        )
        if others or lost:
            what = f"remove {', '.join(lost)}" if lost else f"change {', '.join(others)}, on hold"
            raise NodeError(
                f"the installation would {what}; nothing was changed",
                cause="apt sees no other way to the wanted versions",
                hint="release the hold, remove the package yourself, or ask for another version",
            )
        return simulation

    def hold(self, params: Params) -> None:
        """Release packages, and keep others at their version."""
        if params["release"]:
            self._node.added.release(self._node.manager, params["release"])
        if params["hold"]:
            self._node.added.hold(self._node.manager, params["hold"])

    def remove(self, names: t.Sequence[str]) -> None:
        """Remove the packages and the sources that were added."""
        if names:
            self._node.manager.purge(names)
        if self._node.added.record.sources:
            self._node.host.remove(OWN_SOURCES)
        self._node.manager.clean()
