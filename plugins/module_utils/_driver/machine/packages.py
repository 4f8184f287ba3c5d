# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages, and others' that were there before: what is known, and what brings and removes them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._base.errors import NodeError
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
from ..._base.steps import Step
from ..._machine.packages.api import NoWay
from ..._machine.packages.apt_sources import OWN_SOURCES
from ..._node.machine.facts import library_files
from ..packages.names import is_driver
from ..record import versions
from ..sources.packages import keep_or, would_remove
from .kernel import building, module_files
from .package_facts import way_back
from .sources import Node, Params, Part

# How package managers say that a mirror has no longer what the lists name.
GONE = (" 404 ", "not found on medium", "All mirrors were tried")
ALONG = "its modules are built for a newer kernel than those that are there"


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
        parts = {name for name, one in manager.packages().items() if is_driver(name, one)}
        with building(self._node.host):
            manager.finish(parts | record.packages | record.holds)

    def install(self, params: Params) -> None:
        """Bring the packages to their versions, in one transaction."""
        try:
            self._install(params)
        except NodeError as error:
            stale = not self._node.refreshed and any(one in error.cause for one in GONE)
            if not stale or "rolled_back" in error.details:
                raise
            # The lists are older than the mirror: what they name is gone from there.
            for step in self._replan():
                if step.action == "adopt":
                    self.adopt(step.params)
                if step.action == "install":
                    self._install(step.params)

    def asked(self, step: Step, stream: str) -> t.Tuple[Step, t.Tuple[str, ...]]:
        """Return an installation with what it leaves behind, and what there is to say of it.

        ``stream`` is that of the driver's module which is to be enabled before, or empty. NodeError: the package
        manager cannot do it.
        """
        manager, change = self._node.manager, self._change({**step.params, "stream": stream})
        refuse_unknown_owners(self._node, change)
        packages = manager.packages()
        done = self._simulate(change, packages, step.params.get("taken", ()))
        kernels = [one for one in done.new if re.fullmatch(self._node.family.traits.kernels, one)]
        notes = tuple(f"{one} is installed along with the driver: {ALONG}" for one in kernels)
        ours = still_there(self._node.added.record.packages, packages)
        # On a fresh node there is nothing to leave behind.
        old = set(ours) - set(change.packages) - {*done.removed, *done.changed, *change.remove}
        left = sorted(old & manager.unneeded(change)) if old else []
        along = sorted(set(done.removed) - set(change.remove))
        words = f"; remove {', '.join(along)}, which do not fit" if along else ""
        words += f"; remove {', '.join(left)}, which nothing needs then" if left else ""
        params = {**step.params, "remove": [*change.remove, *along, *left]}
        return dataclasses.replace(step, summary=f"{step.summary}{words}", params=params), notes

    def _change(self, params: Params) -> Change:
        stream = self._stream(params.get("stream", ""))
        holds = self._node.added.record.holds
        return Change(params["packages"], params["remove"], params["pins"], holds, stream)

    def _stream(self, name: str) -> str:
        return f"{self._node.family.traits.module}:{name}" if name else ""

    def _install(self, params: Params) -> None:
        manager, added = self._node.manager, self._node.added
        record, change = added.record, self._change(params)
        before = manager.packages()
        simulation = self._simulate(change, before, params.get("taken", ()))
        # rpm keeps several versions of a kernel; one more of what was there is no addition.
        new = {one for one in simulation.new if one not in before or not before[one].installed}
        requested = record.requested | (new & set(change.packages))
        moved = {*simulation.changed, *simulation.removed}
        packages = record.packages | (new - set(record.others))
        added.remember(
            packages=packages,
            requested=requested,
            **self._earlier(before, moved),
        )
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

    def _simulate(
        self, change: Change, packages: t.Mapping[str, Package], taken: t.Collection[str]
    ) -> Simulation:
        """Return what would be done; refuse when others' packages would go, unless taken over, or lose their hold."""
        record = self._node.added.record
        simulation = self._simulated(change, packages)
        touched = {*simulation.new, *simulation.changed, *simulation.removed}
        others = held(touched - record.holds, packages)
        gone = set(simulation.removed) - {*change.remove, *taken} - record.packages
        # What one module type of the kernel modules leaves behind may go with it; nothing else may.
        along = ("nvidia-kernel-", "nvidia-open-kernel-")
        lost = sorted(name for name in gone if not name.startswith(along))
        if others or lost:
            if lost:
                raise would_remove(lost, self._node.advice)
            raise NodeError(
                f"the installation would change {', '.join(others)}, on hold; nothing was changed",
                cause="the package manager sees no other way to the wanted versions",
                hint="release the hold, or ask for another version",
            )
        return simulation

    def _simulated(self, change: Change, packages: t.Mapping[str, Package]) -> Simulation:
        """Return what would be done; a refusal about a driver that somebody else has installed says what helps."""
        manager, record = self._node.manager, self._node.added.record
        try:
            return manager.simulate(change)
        except NoWay as error:
            named = packages.keys() & set(re.findall(r"[\w.+-]+", error.cause))
            others = named - record.packages - change.packages.keys()
            is_others = any(is_driver(name, packages[name]) for name in others)
            if is_others and self._node.advice and error.hint == manager.unexplained:
                error.hint = keep_or(self._node.advice)
            raise

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
        holds = frozenset(name for name, one in before.items() if one.held)
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
            words = ", ".join([*back, *(f"without {name}" for name in undo.remove)])
            raise NodeError(
                f"the new packages could not be installed, so the previous ones were restored: {words}",
                cause=_without_advice(error),
                hint="fix the cause, or ask for the version that is installed, then run again",
                **{**error.details, "rolled_back": True},
            ) from error
        states = in_words(left, manager.packages())
        words = "; ".join(f"{name} is {state}" for name, state in states.items())
        raise NodeError(
            "the new packages could not be installed, and the previous ones could not be restored",
            cause=f"{_without_advice(error)}\nThen: {_without_advice(second)}\nNow: {words or 'all is back'}",
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


def _without_advice(error: t.Optional[NodeError]) -> str:
    """Return an error without its advice, which is not that of the whole."""
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
