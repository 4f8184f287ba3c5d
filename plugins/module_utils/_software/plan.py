# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps to packages at one version, held, with what belongs to them; and the way back."""

from __future__ import annotations

import abc
import dataclasses
import typing as t

from .._base.errors import OLD_LISTS, NodeError
from .._base.packages.package import Package, Packages, Policy, Record, Removal
from .._base.steps import Plan, Step

R = t.TypeVar("R", bound=Record)
S = t.TypeVar("S", bound="SoftwareState[t.Any]")
D = t.TypeVar("D")
REPAIR = Step("repair", "finish what a killed package manager has begun")
REFRESH = Step("refresh", "refresh the package lists")
Targets = t.Dict[str, str]
Diff = t.Dict[str, t.Any]
Way = t.Tuple[t.List[Step], Diff]  # steps, and the node after them
# Of an error: its message with NAMES and VERSION, its cause, and the next step.
Words = t.Tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class SoftwareState(Packages, t.Generic[R]):
    """What the node has.

    ``refreshed`` says that this run has fetched the package lists, ``note`` what went wrong with it. ``removal`` is
    there when additions are to be removed again and the packages are in order.
    """

    family: str
    packages: t.Mapping[str, Package]
    policies: t.Mapping[str, Policy]
    record: R
    interrupted: bool = False
    refreshed: bool = False
    note: str = ""
    removal: t.Optional[Removal] = None


class Planner(abc.ABC, t.Generic[S, D]):
    """Plans for what was ``observed`` to have what is ``desired``: packages of some ``names``, and what goes with them.

    ``added`` is what of the diff goes with them; ``taken`` is said while somebody uses them, ``free`` how that ends.
    """

    added: str
    on_hold: Words
    not_offered: Words
    taken = free = ""

    def __init__(
        self, observed: S, desired: D, names: t.Sequence[str], *, check_mode: bool
    ) -> None:
        self.observed, self.desired, self.names = observed, desired, names
        self.check_mode = check_mode

    @abc.abstractmethod
    def describe(self) -> Diff:
        """Return the node for the diff."""

    @abc.abstractmethod
    def choose(self) -> t.Optional[Targets]:
        """Return the version of each package, None if one is not offered yet.

        Raises:
            NodeError: if the desired version is not offered.
        """

    @abc.abstractmethod
    def known(self, targets: Targets) -> Way:
        """Return the way to these versions and to what belongs to them."""

    @abc.abstractmethod
    def unknown(self) -> Way:
        """Return the way if versions are only known once the lists are fetched."""

    def parts(self, removed: t.List[str]) -> t.List[str]:
        """Return the texts of what a removal does, including those of packages and files."""
        return removed

    def present(self, named: t.Sequence[Step] = ()) -> Plan:
        """Return the plan to have it, ``named`` being the steps to a repository.

        What can only be planned once the package lists are there comes with the next plan, except in check mode, which
        tells all of it as far as it is known.

        Raises:
            NodeError: if the packages can't be had.
        """
        observed, before = self.observed, self.describe()
        first = [*([REPAIR] if observed.unfinished else []), *named]
        first += [REFRESH] if named and not observed.refreshed else []
        if first and not self.check_mode:
            return Plan(tuple(first), before, before, more=True)
        refresh = Plan((REFRESH,), before, before, more=True)
        try:
            targets = self.choose()
        except NodeError as error:
            error.until = "" if observed.refreshed else OLD_LISTS
            if observed.refreshed or self.check_mode:
                raise
            return refresh  # the lists may be old
        if targets is None and observed.refreshed:
            lacking = [name for name in self.names if not observed.versions(name)] or self.names
            message, cause, hint = self.not_offered
            message = message.replace("NAMES", ", ".join(lacking))
            raise NodeError(message, cause=observed.note or cause, hint=hint)
        if targets is None and not self.check_mode:
            return refresh
        first += [] if targets or REFRESH in first else [REFRESH]
        steps, after = self.known(targets) if targets else self.unknown()
        return Plan((*first, *steps), before, after)

    def missing(self, targets: Targets) -> Targets:
        """Return the packages that are not installed in their version.

        Raises:
            NodeError: if somebody else holds one of them.
        """
        observed, there = self.observed, self.observed.installed
        result = {name: target for name, target in targets.items() if there(name) != target}
        held = sorted(filter(observed.held, set(result) - observed.record.holds))
        if held:
            message, cause, hint = self.on_hold
            named = message.replace("NAMES", ", ".join(held)).replace("VERSION", result[held[0]])
            raise NodeError(named, cause=cause, hint=hint)
        return result

    def surplus(self, desired_packages: t.Collection[str]) -> t.Tuple[str, ...]:
        """Return what earlier runs have installed and is no longer needed; what only came along stays."""
        there = self.observed.record.packages & self.describe()["packages"].keys()
        return tuple(sorted(there.difference(desired_packages)))

    def absent(self, files: t.Iterable[str] = (), users: t.Tuple[str, ...] = ()) -> Plan:
        """Return the plan to remove what was added, and the ``files`` of a repository.

        Raises:
            NodeError: if it has ``users``.
        """
        record, removal, paths = self.observed.record, self.observed.removal, tuple(sorted(files))
        if not (record or paths):
            return Plan()
        before = self.describe()
        if (record.packages or paths) and self.observed.unfinished and not self.check_mode:
            return Plan((REPAIR,), before, before, more=True)
        if users and not self.check_mode:  # a run before it may take these first
            raise NodeError(self.taken, cause="; ".join(users), hint=self.free)
        gone = removal.packages if removal else ()
        parts = self.parts([f"remove {', '.join(group)}" for group in (gone, paths) if group])
        warnings = [f"{self.taken}: {user}" for user in users]
        if removal and removal.needed:
            needed = ", ".join(removal.users) or "others"
            warnings += [f"{', '.join(removal.needed)} stays, as {needed} needs it"]
        params = {"packages": gone, "files": paths}
        step = Step("remove", "; ".join(parts) or "forget what was added", params)
        packages = before["packages"]
        packages = {name: packages[name] for name in packages if name not in gone}
        after = {**before, "packages": packages, self.added: None}
        return Plan((step,), before, after, blocked_by=users, warnings=tuple(warnings))


def common(names: t.Sequence[str], versions: t.Callable[[str], t.Sequence[str]]) -> t.List[str]:
    """Return the versions in which all of some packages can be had, newest first."""
    offers = [versions(name) for name in names]
    return [version for version in offers[0] if all(version in offer for offer in offers)]
