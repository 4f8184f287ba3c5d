# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages, changes of them, and the record of those that were added."""

from __future__ import annotations

import dataclasses
import enum
import json
import typing as t

from ..errors import readable
from ..steps import Step
from ..text import json_data
from ..text.shown import shown

R = t.TypeVar("R", bound="Record")
EXCLUSION_HINT = "remove them from excludepkgs (exclude) in /etc/dnf/dnf.conf or the repository's file, then run again"


class State(enum.Enum):
    """The state of a package, by dpkg's names, with descriptions; rpm knows the first, the last and TWICE."""

    INSTALLED = "installed"
    CONFIG_FILES = "removed but for its configuration"
    HALF_INSTALLED = "half installed"
    UNPACKED = "unpacked, not configured"
    HALF_CONFIGURED = "half configured"
    TRIGGERS_AWAITED = "waiting for another package"
    TRIGGERS_PENDING = "waiting for a trigger"
    TWICE = "there in two versions"  # a killed transaction of rpm has left them
    NOT_INSTALLED = "not installed"


WAITING = (State.TRIGGERS_AWAITED, State.TRIGGERS_PENDING)
UNFINISHED = (State.HALF_INSTALLED, State.UNPACKED, State.HALF_CONFIGURED, *WAITING, State.TWICE)


class Package(t.NamedTuple):
    """A package that is installed, or on hold: ``held``.

    ``torn`` is whether its files are incomplete, so that it must be reinstalled.
    """

    version: str
    source: str
    state: State
    held: bool = False
    torn: bool = False

    @property
    def installed(self) -> bool:
        """Return whether it is unpacked and configured, maybe except triggers."""
        return self.state in (State.INSTALLED, *WAITING, State.TWICE)

    @property
    def broken(self) -> bool:
        """Return whether a transaction was interrupted at it."""
        return self.state in UNFINISHED or self.torn

    @property
    def needs_files(self) -> bool:
        """Return whether it must be reinstalled before anything else is done with it."""
        return self.torn or self.state is State.HALF_INSTALLED

    @property
    def gone(self) -> bool:
        """Return whether it is removed, maybe except its configuration."""
        return self.state in (State.NOT_INSTALLED, State.CONFIG_FILES)


class Policy(t.NamedTuple):
    """The versions of a package in the sources: the candidate, and all versions, newest first.

    Versions that a pin bars are left out. ``component`` is the candidate's component in apt's archive.
    """

    candidate: t.Optional[str]
    versions: t.Tuple[str, ...]
    component: str = ""


# The dependencies of a package, such as "libc6 (>= 2.3)" and "perl | awk", by its name and version.
Relations = t.Mapping[str, t.Mapping[str, t.Tuple[str, ...]]]


class Change(t.NamedTuple):
    """One transaction.

    Attributes:
        packages: The packages to install, with their versions, None for any.
        remove: The packages to remove.
        pins: The versions of source packages, for dependencies.
        holds: The packages that we hold.
        stream: A module's stream, as name:stream, that is enabled first.
    """

    packages: t.Mapping[str, t.Optional[str]]
    remove: t.Sequence[str]
    pins: t.Mapping[str, str]
    holds: t.FrozenSet[str]
    stream: str = ""

    def is_done(self, packages: t.Mapping[str, Package]) -> bool:
        """Return whether the packages are installed and configured in their versions, and the others removed."""
        there = {name: package for name, package in packages.items() if package.installed}
        return there.keys().isdisjoint(self.remove) and all(
            name in there and not there[name].broken and version in (None, "", there[name].version)
            for name, version in self.packages.items()
        )


class Simulation(t.NamedTuple):
    """The packages that a transaction would newly install, bring to another version, and remove.

    The names of packages of foreign architectures end in them: libcuda1:i386.
    """

    new: t.Tuple[str, ...]
    changed: t.Tuple[str, ...]
    removed: t.Tuple[str, ...]

    @classmethod
    def of(cls, changes: t.Iterable[t.Tuple[str, str]]) -> Simulation:
        """Return a simulation from pairs of kind, which is a field, and name."""
        pairs = list(changes)
        return cls(*(tuple(name for kind, name in pairs if kind == field) for field in cls._fields))


class Removal(t.NamedTuple):
    """The result of removing additions: packages to remove, packages that others need, and these others."""

    packages: t.Tuple[str, ...]
    needed: t.Tuple[str, ...]
    users: t.Tuple[str, ...]


def still_there(names: t.Iterable[str], packages: t.Mapping[str, Package]) -> t.List[str]:
    """Return those of the names of which anything is installed, configuration included."""
    there = {name for name, package in packages.items() if package.state is not State.NOT_INSTALLED}
    return [name for name in names if name in there]


def broken_of(packages: t.Mapping[str, Package]) -> t.Dict[str, Package]:
    """Return those of the packages at which a transaction was interrupted."""
    return {name: package for name, package in packages.items() if package.broken}


def held(names: t.Iterable[str], packages: t.Mapping[str, Package]) -> t.List[str]:
    """Return those of the names that are on hold, in order."""
    return sorted(name for name in names if name in packages and packages[name].held)


class Rollback(t.NamedTuple):
    """The packages to restore, each with its version, those to remove, and those to hold again."""

    packages: t.Mapping[str, str]
    remove: t.Tuple[str, ...]
    holds: t.Tuple[str, ...]

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        return bool(self.packages or self.remove or self.holds)


def rollback(before: t.Mapping[str, Package], current: t.Mapping[str, Package]) -> Rollback:
    """Return the rollback from the current packages to the earlier ones.

    Packages that were not installed before are removed; those that were broken stay as they are.
    """
    have = {name: package.version for name, package in current.items() if package.installed}
    packages = {
        name: old.version
        for name, old in before.items()
        if old.installed and not old.broken and have.get(name) != old.version
    }
    there = {name for name, package in current.items() if not package.gone}
    known = {name for name, package in before.items() if not package.gone}
    held_before = {name for name, old in before.items() if old.held and old.installed}
    holds = held_before - set(held(held_before, current))
    return Rollback(packages, tuple(sorted(there - known)), tuple(sorted(holds)))


def in_words(change: Rollback, current: t.Mapping[str, Package]) -> t.Dict[str, str]:
    """Return descriptions of the packages that a rollback changes, with version and state."""
    result = {}
    for name in sorted({*change.packages, *change.remove}):
        package = current.get(name)
        state = package.state if package else State.NOT_INSTALLED
        version = f"{package.version}, " if package and package.version else ""
        result[name] = version + state.value
    return result


@dataclasses.dataclass(frozen=True)
class Record:
    """The additions of a capability to a node, which are recorded so that they can be removed again.

    ``keys`` are those that rpm trusts for it, ``repository`` is whether it has written the files of one. Each
    capability adds fields of its own, which are sets of names, flags or texts as well.
    """

    packages: t.FrozenSet[str] = frozenset()
    holds: t.FrozenSet[str] = frozenset()
    keys: t.FrozenSet[str] = frozenset()
    repository: bool = False

    def __bool__(self) -> bool:
        """Return whether anything was added."""
        return self != type(self)()

    def dump(self) -> str:
        """Return the record's text."""
        values = {
            key: sorted(value) if isinstance(value, frozenset) else value
            for key, value in dataclasses.asdict(self).items()
        }
        return json.dumps(values, indent=1) + "\n"

    @classmethod
    def load(cls: t.Type[R], text: t.Optional[str], path: str) -> R:
        """Parse a record; a node without one has had no additions."""
        if text is None:
            return cls()
        with readable(path, "remove the file; what earlier runs added then counts as your own"):
            values = json_data.loads(text)
            fields = {field.name: field.default for field in dataclasses.fields(cls)}
            return cls(
                **{key: _read(values.get(key, field), type(field)) for key, field in fields.items()}
            )


def _read(value: t.Any, kind: type) -> t.Any:
    if kind is not frozenset:
        return value is True if kind is bool else str(value)
    names = value if isinstance(value, (list, frozenset)) else [None]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"expected a list of names, found {shown(value)}")
    return frozenset(names)


class Packages:
    """A node's packages as a capability has observed them, by their names, with their policies.

    ``interrupted`` is whether a transaction was killed.
    """

    packages: t.Mapping[str, Package]
    policies: t.Mapping[str, Policy]
    interrupted: bool

    def installed(self, name: str) -> t.Optional[str]:
        """Return an installed package's version."""
        package = self.packages.get(name)
        return package.version if package is not None and package.installed else None

    def there(self, names: t.Iterable[str]) -> t.Dict[str, str]:
        """Return the versions of those of the packages that are installed."""
        versions = {name: self.installed(name) for name in names}
        return {name: version for name, version in versions.items() if version}

    def offered(self, name: str) -> t.Tuple[str, ...]:
        """Return the versions of a package that the sources offer, newest first."""
        policy = self.policies.get(name)
        return policy.versions if policy else ()

    def versions(self, name: str) -> t.Tuple[str, ...]:
        """Return every available version, newest first, with the installed one."""
        offered, installed = self.offered(name), self.installed(name)
        return offered if installed is None or installed in offered else (*offered, installed)

    def candidate(self, name: str) -> t.Optional[str]:
        """Return the version that the package manager would install."""
        policy = self.policies.get(name)
        return policy.candidate if policy else None

    def held(self, name: str) -> bool:
        """Return whether a package is on hold."""
        return name in self.packages and self.packages[name].held

    @property
    def unfinished(self) -> bool:
        """Return whether a transaction was killed, or interrupted at any package."""
        return self.interrupted or any(package.broken for package in self.packages.values())

    def holds(
        self, desired: t.Collection[str], changed: t.Collection[str], ours: t.Iterable[str]
    ) -> t.List[Step]:
        """Return the step that holds the desired packages, and releases others of ``ours``, which we have held.

        The hold of packages that are ``changed`` is set again: apt drops it with another version.
        """
        ours = {name for name in ours if self.held(name)}
        hold = sorted(name for name in desired if name in changed or not self.held(name))
        release = sorted(ours.difference(desired))
        parts = [f"hold {', '.join(hold)} at their version"] if hold else []
        parts += [f"release the hold on {', '.join(release)}"] if release else []
        return [Step("hold", "; ".join(parts), {"hold": hold, "release": release})] if parts else []
