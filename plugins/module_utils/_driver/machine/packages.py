# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages on a node: what is known of them, plans that can be carried out, and the transactions."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._base.errors import NodeError
from ..._base.packages.apt import unmet
from ..._base.packages.package import (
    Change,
    Package,
    Rollback,
    Simulation,
    held,
    in_words,
    rollback,
    still_there,
)
from ..._base.packages.repository import BEFORE
from ..._base.steps import Plan, Step
from ..._machine.packages.api import NoHold, NoWay, OutOfOrder
from ..._machine.packages.apt_sources import OWN_SOURCES
from ..._node.machine.facts import library_files
from .. import branches
from ..desired import Desired
from ..facts import DriverState
from ..packages import adoption, components
from ..packages.names import (
    FABRIC_PREFIX,
    NO_BRANCH,
    SUBNET,
    Names,
    Offer,
    Requirements,
    is_driver,
    part,
)
from ..packages.versions import siblings
from ..plan import plan as plan_driver
from ..record import parse_pairs
from ..sources.packages import keep_or, would_remove
from .kernel import building, knows_nvidias_key, module_files
from .sources import Node, Params, Part

# How package managers say that a mirror has no longer what the lists name.
GONE = (
    *(" 404 ", "not found on medium", "All mirrors were tried"),
    "from local repository have incorrect checksum",  # dnf 4, where the file is gone
)
ALONG = "its modules are built for a newer kernel than those that are there"


class PackageFacts(Part):
    """The packages of the driver, and others' that were there before."""

    def observe(self, state: DriverState, desired: Desired) -> DriverState:
        """Add what the package manager knows."""
        manager, present = self._node.manager, desired.state == "present"
        asks = present and not desired.source.runfile
        state = state.with_software(packages=manager.packages())
        names = components.extend(self._names(state, desired, asks=asks), desired.components)
        state = state.with_software(names=names)
        if present and desired.components:
            components.check(state, desired.components, persistence=desired.kernel.persistence)
        modules = self._node.family.asked(state) if asks else set()
        taken = state.taken(desired.adopt) if asks else ()
        kind = state.wanted_type(desired.kernel.module_type) if taken else ""
        counterparts = adoption.counterparts(state, taken, kind) if taken else ()
        headers = map(names.headers.package_for, (state.machine.kernel, *state.newer))
        tie = names.headers.tie.format(state.machine.kernel)
        asked = {*names.relevant, *desired.components, *names.needs, *modules, *headers}
        asked |= {tie, *siblings(state, ()), *counterparts}
        asked |= {*components.ALL_DCGM} if "dcgm" in desired.components else set()
        asked = {name for name in asked if name and NO_BRANCH not in name}
        state = state.with_software(
            policies=manager.policies(sorted(asked)) if asks else {},
            relations=manager.relations(sorted(modules)) if modules else {},
            interrupted=manager.interrupted(),
            sources=manager.sources(),
        )
        state = state.with_history(unanswered={**manager.unanswered})
        return self._components(state, desired) if asks else state

    def _components(self, state: DriverState, desired: Desired) -> DriverState:
        """Add the names that depend on the driver's version, and packages of components that are no longer desired."""
        names, record = state.software.names, state.history.record
        if "dcgm" in desired.components:
            base, software = names.user_space[0], state.software
            newest = branches.newest_branch_for(state.machine.gpus)
            known = (desired.version, software.installed(base), newest, names.branch)
            version = next(filter(None, (*known, software.candidate(base))), "")
            names = components.extend(names, desired.components, version)
        left = components.dropped(names, desired.components, record.requested)
        adopted = {part(name) for name in record.adopted_versions}
        there = filter(state.software.installed, left)
        left = [name for name in there if part(name) not in adopted]
        surplus: t.Tuple[str, ...] = ()
        if left and (state.machine.traits.apt or not state.software.unfinished):
            along = record.packages - record.requested - {*names.relevant, *desired.components}
            surplus = self._node.manager.leftover(
                left, still_there(sorted(along), state.software.packages)
            )
        return state.with_software(names=names, surplus=surplus)

    def _names(self, state: DriverState, desired: Desired, *, asks: bool) -> Names:
        family, kernel, key = self._node.family, state.machine.kernel, state.machine.signing_key
        packages = state.software.packages.items()
        installed = {
            name: package.version for name, package in packages if package.installed or not asks
        }
        ending = family.ending(installed, state.history.record, desired)
        if not asks:
            requirements = Requirements(kernel=kernel, ending=ending)
            return family.names(Offer(installed=installed), requirements)
        ready = family.wants_precompiled(desired.kernel.precompiled, installed, key)
        fits = Requirements(
            desired.version,
            state.wanted_type(desired.kernel.module_type),
            kernel,
            desired.source.name == "repository",
            state.machine.gpus,
            nvswitch=state.machine.nvswitch,
            bridged=state.machine.bridged,
            ending=ending,
            precompiled=ready,
            newest=desired.update,
            trusted=ready and knows_nvidias_key(self._node.host, key),
            signs=desired.kernel.precompiled == "auto" and bool(key and key.state == "enrolled"),
            kernels=state.loaded.modules.kernels,
        )
        return family.names(self._offer(fits, installed), fits)

    def _offer(self, requirements: Requirements, installed: t.Mapping[str, str]) -> Offer:
        manager, family = self._node.manager, self._node.family
        prefixes = [FABRIC_PREFIX] if requirements.nvswitch else []
        prefixes += [*family.prefixes(requirements), *([SUBNET] if requirements.bridged else [])]
        names = frozenset(name for prefix in prefixes for name in manager.known(prefix))
        offered = Offer(names, installed=installed)
        candidates = family.candidates(offered, requirements)
        return offered._replace(policies=manager.policies(candidates) if candidates else {})

    def removal(self, state: DriverState) -> DriverState:
        """Add what the removal of our additions comes to, and what is put back in their place, None without a way."""
        manager, record = self._node.manager, state.history.record
        ours = still_there(record.packages, state.software.packages)
        known = {*ours, *record.foreign_packages}
        foreign = {
            name
            for name, package in state.software.packages.items()
            if package.installed and name not in known and is_driver(name, package)
        }
        if ours and foreign:
            # Upgrades have brought modules of newer kernels since, as a dependency of ours.
            ours += sorted(foreign & manager.automatic() & manager.dependencies(ours))
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


class Packages(Part):
    """The packages of the driver; ``replan`` refreshes the lists, and observes and plans again."""

    _adopted: t.Mapping[str, t.FrozenSet[str]] = {}  # what the record had before this run

    def __init__(self, node: Node, replan: t.Callable[[], t.Sequence[Step]]) -> None:
        super().__init__(node)
        self._replan = replan

    def adopt(self, params: Params) -> None:
        """Write down what is taken over, so that it can be put back."""
        added, record = self._node.added, self._node.added.record
        self._adopted = {"adopted": record.adopted, "automatic": record.automatic}
        names = params["packages"]
        automatic = self._node.manager.automatic() & set(names) if names else frozenset()
        added.remember(
            adopted=record.adopted | {f"{name} {version}" for name, version in names.items()},
            automatic=record.automatic | automatic,
            replaced=params["runfile"] or record.replaced,
        )

    def enable(self, params: Params) -> None:
        """Enable components of the node's own sources, or remove the file that is no longer needed."""
        added, text, earlier = self._node.added, params["text"], self._node.added.record
        added.remember(sources=bool(text))
        if text:
            added.write_sources(self._node.manager, {OWN_SOURCES: text}, earlier)
        else:
            self._node.host.remove(OWN_SOURCES)

    def repair(self, _params: Params) -> None:
        """Finish what a killed transaction has left."""
        manager, record = self._node.manager, self._node.added.record
        parts = {name for name, package in manager.packages().items() if is_driver(name, package)}
        with building(self._node.host):
            manager.finish(parts | record.packages | record.holds)

    def install(self, params: Params) -> None:
        """Bring the packages to their versions, in one transaction."""
        try:
            self._install(params)
        except NodeError as error:
            stale = not self._node.refreshed and any(phrase in error.cause for phrase in GONE)
            if not stale or "rolled_back" in error.details:
                raise
            # The lists are older than the mirror: what they name is gone from there.
            for step in self._replan():
                if step.action == "adopt":
                    self.adopt(step.params)
                if step.action == "install":
                    self._install(step.params)

    def asked(self, step: Step, stream: str) -> t.Tuple[Step, t.Tuple[str, ...]]:
        """Return an installation with the packages that go along with it, and warnings about it.

        ``stream`` is that of the driver's module which is to be enabled before, or empty.

        Raises:
            NodeError: if the package manager can't carry it out.
        """
        manager, change = self._node.manager, self._change({**step.params, "stream": stream})
        refuse_unknown_owners(self._node, change)
        packages = manager.packages()
        simulation = self._simulate(change, packages, step.params.get("taken", ()))
        pattern = self._node.family.traits.kernels
        kernels = [name for name in simulation.new if re.fullmatch(pattern, name)]
        notes = tuple(f"{kernel} is installed along with the driver: {ALONG}" for kernel in kernels)
        ours = still_there(self._node.added.record.packages, packages)
        # On a fresh node there is nothing to leave behind.
        moved = {*simulation.removed, *simulation.changed, *change.packages, *change.remove}
        old = set(ours) - moved
        left = sorted(old & manager.unneeded(change)) if old else []
        along = sorted(set(simulation.removed) - set(change.remove))
        additions = f"; remove {', '.join(along)}, which do not fit" if along else ""
        additions += f"; remove {', '.join(left)}, which nothing needs then" if left else ""
        params = {**step.params, "remove": [*change.remove, *along, *left]}
        return dataclasses.replace(step, summary=f"{step.summary}{additions}", params=params), notes

    def _change(self, params: Params) -> Change:
        stream = params.get("stream", "")
        stream = f"{self._node.family.traits.module}:{stream}" if stream else ""
        holds = self._node.added.record.holds
        return Change(params["packages"], params["remove"], params["pins"], holds, stream)

    def _install(self, params: Params) -> None:
        manager, added = self._node.manager, self._node.added
        record, change = added.record, self._change(params)
        before = manager.packages()
        simulation = self._simulate(change, before, params.get("taken", ()))
        # rpm keeps several versions of a kernel; one more of what was there is no addition.
        new = {name for name in simulation.new if name not in before or not before[name].installed}
        requested = record.requested | (new & set(change.packages))
        moved = {*simulation.changed, *simulation.removed}
        packages = record.packages | (new - set(record.foreign_packages))
        added.remember(packages=packages, requested=requested, **self._earlier(before, moved))
        replaces = bool(moved.intersection((*change.packages, *change.remove)))
        try:
            self._carry_out(change, before, replaces)
        except NodeError as error:
            if error.details.get("rolled_back") or manager.packages() == before:
                fields = ("packages", "requested", "earlier", "automatic", "exchanged")
                had = {name: getattr(record, name) for name in fields}
                added.remember(**{**had, **self._adopted})
            raise
        there = still_there(change.remove, manager.packages())
        if gone := set(change.remove) - set(there):
            record = added.record
            added.remember(packages=record.packages - gone, requested=record.requested - gone)

    def _earlier(
        self, packages: t.Mapping[str, Package], moved: t.Set[str]
    ) -> t.Dict[str, t.FrozenSet[str]]:
        """Return the record's fields about packages of others, as they are before a transaction.

        The first one finds which these are, and each that moves one for the first time its version.
        """
        record = self._node.added.record
        known, automatic = parse_pairs(record.earlier, " "), record.automatic
        if not (known or record.packages):
            known = {
                name: package.version
                for name, package in packages.items()
                if package.installed and ("nvidia" in name or is_driver(name, package))
            }
            automatic |= self._node.manager.automatic() & known.keys() if known else frozenset()
        fresh = known.keys() & moved - record.exchanged
        known.update({name: packages[name].version for name in fresh})
        return {
            "earlier": frozenset(f"{name} {version}" for name, version in known.items()),
            "automatic": automatic,
            "exchanged": record.exchanged | (record.foreign_packages.keys() | known.keys()) & moved,
        }

    def _simulate(
        self, change: Change, packages: t.Mapping[str, Package], taken: t.Collection[str]
    ) -> Simulation:
        """Return what would change; refuse if packages of others would go or lose their hold."""
        manager, record = self._node.manager, self._node.added.record
        try:
            simulation = manager.simulate(change)
        except NoWay as error:
            # About a driver that somebody else has installed, there is more to advise.
            named = packages.keys() & set(re.findall(r"[\w.+-]+", error.cause))
            foreign = named - record.packages - change.packages.keys()
            is_others = any(is_driver(name, packages[name]) for name in foreign)
            if is_others and self._node.advice and error.hint == manager.unexplained:
                error.hint = keep_or(self._node.advice)
            raise
        touched = {*simulation.new, *simulation.changed, *simulation.removed}
        held_packages = held(touched - record.holds, packages)
        gone = set(simulation.removed) - {*change.remove, *taken} - record.packages
        # What one module type of the kernel modules leaves behind may go with it; nothing else may.
        along = ("nvidia-kernel-", "nvidia-open-kernel-")
        lost = sorted(name for name in gone if not name.startswith(along))
        if held_packages or lost:
            if lost:
                raise would_remove(lost, self._node.advice)
            raise NodeError(
                f"the installation would change {', '.join(held_packages)}, on hold; nothing was changed",
                cause="the package manager sees no other way to the wanted versions",
                hint="release the hold, or ask for another version",
            )
        return simulation

    def _carry_out(self, change: Change, before: t.Mapping[str, Package], replaces: bool) -> None:
        """Carry a transaction out; where it fails, put back the packages that were there ``before``.

        ``replaces`` says that a driver was there before. A first installation has nothing to go back to,
        and the next run finishes it; it finishes a killed one as well, of which nobody knows that it fails.
        """
        manager = self._node.manager
        automatic = manager.automatic() if replaces else frozenset()
        try:
            with building(self._node.host, complete=replaces):
                manager.change(change)
        except NodeError as error:
            if not replaces or manager.interrupted():
                raise
            undo = rollback(before, manager.packages())
            if undo.packages or undo.remove:
                self._put_back(undo, error, before, automatic & set(undo.packages))
            if undo.holds:
                manager.hold(undo.holds)
            raise

    def _put_back(
        self,
        undo: Rollback,
        error: NodeError,
        before: t.Mapping[str, Package],
        automatic: t.Collection[str],
    ) -> t.NoReturn:
        """Put the packages back that were there ``before``; those of ``automatic`` came as dependencies."""
        manager = self._node.manager
        holds = frozenset(name for name, package in before.items() if package.held)
        change = Change(undo.packages, undo.remove, {}, holds)
        second: t.Optional[NodeError] = None
        try:
            self._node.stream_back()
            with building(self._node.host):
                manager.restore(change, automatic)
        except NodeError as found:
            second = found
        left = rollback(before, manager.packages())
        again = [name for name in left.holds if name not in left.packages]
        if again:
            manager.hold(again)
        if second is None and not (left.packages or left.remove):
            back = [f"{name} {version}" for name, version in sorted(undo.packages.items())]
            listing = ", ".join([*back, *(f"without {name}" for name in undo.remove)])
            raise NodeError(
                f"the new packages could not be installed, so the previous ones were restored: {listing}",
                cause=_without_advice(error),
                hint="fix the cause, or ask for the version that is installed, then run again",
                **{**error.details, "rolled_back": True},
            ) from error
        states = in_words(left, manager.packages())
        listing = "; ".join(f"{name} is {state}" for name, state in states.items())
        raise NodeError(
            "the new packages could not be installed, and the previous ones could not be restored",
            cause=f"{_without_advice(error)}\nThen: {_without_advice(second)}\nNow: {listing or 'all is back'}",
            hint=f"fix the second cause, then run on the node: {manager.by_hand(change)}",
            **{**error.details, "rolled_back": False, "packages_left": states},
        ) from error

    def fetch(self, params: Params) -> None:
        """Download the packages of an installation."""
        self._node.manager.fetch(self._change(params))

    def hold(self, params: Params) -> None:
        """Release packages, and keep others at their version."""
        if params["release"]:
            self._node.added.release(self._node.manager, params["release"])
        if params["hold"]:
            self._node.added.hold(self._node.manager, params["hold"])

    def remove(self, names: t.Sequence[str], back: t.Mapping[str, str], *, sources: bool) -> None:
        """Remove the packages that were added, in one transaction with what is put ``back``, and the sources."""
        manager, record = self._node.manager, self._node.added.record
        if back:
            with building(self._node.host):
                manager.restore(way_back(self._node, back, names), record.automatic & set(back))
        elif names:
            manager.purge(names)
        if record.sources and sources:
            self._node.host.remove(OWN_SOURCES)
        manager.clean()


class FeasiblePlans(Part):
    """Plans the driver, and asks the package manager before the first step whether it can carry that out."""

    def __init__(self, node: Node, packages: Packages, *, check_mode: bool) -> None:
        super().__init__(node)
        self._packages, self._check_mode = packages, check_mode

    def plan(self, state: DriverState, desired: Desired) -> Plan:
        """Plan what the package manager can carry out: without the prebuilt kernel modules that it refuses."""
        family = self._node.family
        planned = plan_driver(family, state, desired, check_mode=self._check_mode)
        try:
            return self._asked(planned, holds=not state.history.lacks_locking)
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
            refused = family.unusable(state, planned.steps, str(error))
            if not refused:
                raise
            cause = unmet(error.cause)
        try:
            state = state.with_history(refused=state.history.refused.union(refused))
            planned = self.plan(state, desired)
        except NodeError as second:
            second.cause = f"{second.cause}; {', '.join(refused)} cannot be installed: {cause}"
            raise
        left = f"{', '.join(sorted(refused))} can't be installed, and is left out: {cause}"
        return dataclasses.replace(planned, warnings=(left, *planned.warnings))

    def _asked(self, planned: Plan, *, holds: bool) -> Plan:
        """Return what the package manager makes of a plan.

        If steps before decide what it knows then, it only checks whether it could read sources and repair packages.
        """
        manager = self._node.manager
        if not (self._node.previewed or BEFORE.isdisjoint(step.action for step in planned.steps)):
            for step in planned.steps:
                if step.action == "repair":
                    manager.check_repair()
                elif step.action == "sources" and step.params["text"]:
                    manager.check_sources({OWN_SOURCES: step.params["text"]})
                elif step.action == "repository":
                    manager.check_sources(step.params["files"], step.params["stale"])
            return planned
        stream = "".join(step.params["stream"] for step in planned.steps if step.action == "stream")
        steps, warnings = [], [*planned.warnings]
        opened = False  # what is in a repository that a step brings cannot be asked for yet
        for step in planned.steps:
            if step.action == "hold" and step.params["hold"] and holds and not opened:
                manager.check_hold()
            if step.action == "install" and not opened:
                step, notes = self._packages.asked(step, stream)
                warnings += notes
                opened = bool(step.params.get("opens"))
            steps.append(step)
        return dataclasses.replace(planned, steps=tuple(steps), warnings=tuple(warnings))


def way_back(node: Node, packages: t.Mapping[str, str], ours: t.Sequence[str]) -> Change:
    """Return the transaction that puts others' packages back in place of ours, with the stream that they are of."""
    record = node.added.record
    stream = f"{node.family.traits.module}:{record.stream_before}" if record.stream_before else ""
    return Change(packages, ours, {}, record.holds, stream)


def _without_advice(error: t.Optional[NodeError]) -> str:
    """Return the text of an error without its hint, which does not apply to the whole."""
    return str(NodeError(error.message, cause=error.cause)) if error else "no error was reported"


def refuse_unknown_owners(node: Node, change: Change) -> None:
    """Refuse to install the driver beside kernel modules or libraries of a package that is not known.

    Raises:
        NodeError: if there is such a package. Of two drivers the kernel and the linker would each choose one.
    """
    traits, manager = node.family.traits, node.manager
    if not any(map(traits.type_of, change.packages)):
        return
    known = {*node.added.record.packages, *change.packages, *change.remove}
    modules = manager.owners(module_files(node.host))
    unknown = {path: name for path, name in modules.items() if not traits.type_of(name)}
    libraries = manager.owners(library_files(node.host))
    # Of NVIDIA's user space all names are not known.
    unknown.update((path, name) for path, name in libraries.items() if name[:7] != "nvidia-")
    unknown = {path: name for path, name in unknown.items() if name not in known}
    if unknown:
        names = sorted(set(unknown.values()))
        raise NodeError(
            f"{', '.join(names)} of another packager has files of the driver, and this module has not added it",
            cause=f"{', '.join(sorted(unknown))} would be there beside those of the packages to be installed",
            hint="keep that driver with source: preinstalled, or remove it, then run again: "
            f"{traits.purge} {' '.join(names)}",
        )
