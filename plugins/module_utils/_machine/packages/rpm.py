# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""rpm, which knows what is installed and what needs it."""

from __future__ import annotations

import abc
import re
import typing as t

from ..._base.errors import NodeError
from ..._base.packages import rpm
from ..._base.packages.package import Change, Package
from ..host import Completed
from .api import PackageManager, tail

# The third is dnf5's, which does not wait: libdnf5/base/transaction.cpp, ERROR_LOCK.
RPM_BUSY = re.compile(
    r"transaction lock on|Existing lock |obtain rpm transaction lock|[Ww]aiting for process with pid"
)
# dnf's shell ends with status 0 all the same; nothing was done then.
DNF_LOCKED = re.compile(r"^Error: .* already locked by \d+", re.M)
KEYS_FOLDER = "/etc/pki/rpm-gpg/"
# Of a kernel there are several versions.
TEST = ("rpm", "--erase", "--allmatches", "--test")


def exact(name: str, version: str) -> str:
    """Return a package with its version as rpm names both, without the epoch."""
    return f"{name}-{version.split(':')[-1]}"


def is_repositories(path: str) -> bool:
    """Return whether a file has repositories; the other files of a repository are keys."""
    return path.endswith(".repo")


class Rpm(PackageManager):
    """What dnf and zypper have in common."""

    on_hold, obstacles = "locked", "a repository or an exclusion"

    def _locks(self) -> t.Tuple[str, ...]:
        folder = self._host.run(["rpm", "--eval", "%{_dbpath}"], check=False).out.strip()
        return (f"{folder}/.rpm.lock",)

    def _is_busy(self, completed: Completed) -> bool:
        output = f"{completed.out}\n{completed.err}"
        return bool(DNF_LOCKED.search(output) or (completed.rc != 0 and RPM_BUSY.search(output)))

    @abc.abstractmethod
    def _locked(self) -> t.FrozenSet[str]:
        """Return the packages that are locked at their version."""

    def _packages(self) -> t.Dict[str, Package]:
        return rpm.parse_packages(self._all(), self._locked())

    def _all(self) -> str:
        return self._host.run(["rpm", "-qa", "--qf", rpm.RPM_FORMAT]).out

    def repair(self) -> None:
        # A killed upgrade leaves the older version there as well, a downgrade the newer one. Such packages
        # are marked; rpm has no journal for outsiders.
        doubles = rpm.doubles(self._all())
        older = [exact(name, version) for name, versions in doubles for version in versions[:-1]]
        newer = [exact(name, version) for name, versions in doubles for version in versions[1:]]
        if doubles:
            test = self._call(["rpm", "--erase", "--test", *older], check=False)
            self._call(["rpm", "--erase", *(older if test.rc == 0 else newer)])

    def trusted(self) -> t.Tuple[str, ...]:
        # rpm fails if it has no key.
        command = ["rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}\\n", "gpg-pubkey"]
        completed = self._host.run(command, check=False)
        return tuple(completed.out.split()) if completed.rc == 0 else ()

    def trust(self, path: str) -> None:
        self._call(["rpm", "--import", path])

    def distrust(self, keys: t.Sequence[str]) -> None:
        self._call(["rpm", "--erase", *(f"gpg-pubkey-{key}" for key in keys)])

    def providers(self, capabilities: t.Sequence[str]) -> t.FrozenSet[str]:
        """Return the installed packages that provide capabilities or have files, which are absolute paths."""
        command = ["rpm", "-q", "--whatprovides", "--qf", "%{NAME}\\n", *capabilities]
        lines = self._host.run(command, check=False).out.split("\n")
        # A line with blanks is an error: no package provides the capability.
        return frozenset(line for line in lines if line and " " not in line)

    def leftover(self, names: t.Collection[str], along: t.Collection[str]) -> t.Tuple[str, ...]:
        left: t.Set[str] = set()
        new = set(names)
        while new:
            needs = self._host.run(["rpm", "-q", "--requires", *sorted(new)], check=False).out
            capabilities = {line.split()[0] for line in needs.split("\n") if line.strip()}
            providers = self.providers(sorted(capabilities)) if capabilities else frozenset()
            new = set(providers.intersection(along) - left)
            left |= new
        return super().leftover(names, left)

    def _needed(self, names: t.Set[str]) -> t.Tuple[t.Set[str], t.Set[str]]:
        completed = self._call([*TEST, *sorted(names)], check=False)
        needs = rpm.parse_needs(completed.err + completed.out)
        if completed.rc == 0 or not needs:
            return set(), set()
        command = ["rpm", "-q", "--whatprovides", "--qf", "%{NAME}\\n"]
        asked = self._call([*command, *sorted({need for need, _user in needs})], check=False)
        needed = names & set(asked.out.split())
        if not needed:
            raise NodeError(
                "rpm does not say which of the added packages others need",
                cause=tail(completed),
                hint="remove the packages that it names, then run again",
            )
        return {user for _needed, user in needs}, needed

    def _lacking(self, change: Change) -> t.List[str]:
        """Return the packages of a change that are not installed in their version."""
        return [
            name
            for name, version in change.packages.items()
            if not self._is_there(exact(name, version) if version else name)
        ]

    def _is_there(self, package: str) -> bool:
        return self._host.run(["rpm", "-q", package], check=False).rc == 0
