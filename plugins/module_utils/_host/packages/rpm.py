# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""rpm, which dnf and zypper stand on: it knows what is installed and what needs it."""

from __future__ import annotations

import abc
import re
import typing as t

from ..._core.errors import NodeError
from ..._core.packages import rpm
from ..._core.packages.package import Package
from ..api import Completed
from .api import PackageManager, tail

RPM_BUSY = re.compile(r"transaction lock on|Existing lock |[Ww]aiting for process with pid")
RPM_KEYS = ("rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}\\n")
# dnf's shell ends with status 0 all the same; nothing was done then.
DNF_LOCKED = re.compile(r"^Error: .* already locked by \d+", re.M)


def _of(name: str, version: str) -> str:
    """Return how rpm calls one version of a package."""
    return f"{name}-{version.split(':')[-1]}"


class Rpm(PackageManager):
    """What both have in common."""

    on_hold, obstacles = "locked", "a repository or an exclusion"

    def _is_busy(self, done: Completed) -> bool:
        said = f"{done.out}\n{done.err}"
        return bool(DNF_LOCKED.search(said) or (done.rc != 0 and RPM_BUSY.search(said)))

    @abc.abstractmethod
    def _locked(self) -> t.FrozenSet[str]:
        """Return the packages that are locked at their version."""

    def packages(self) -> t.Dict[str, Package]:
        return rpm.parse_packages(self._all(), self._locked())

    def _all(self) -> str:
        return self._host.run(["rpm", "-qa", "--qf", rpm.RPM_FORMAT]).out

    def repair(self) -> None:
        # A killed upgrade leaves the older version there as well, a downgrade the newer one. Such packages
        # are marked; rpm has no journal for outsiders.
        found = rpm.doubles(self._all())
        older = [_of(name, one) for name, versions in found for one in versions[:-1]]
        newer = [_of(name, one) for name, versions in found for one in versions[1:]]
        if found:
            test = self._call(["rpm", "--erase", "--test", *older], check=False)
            self._call(["rpm", "--erase", *(older if test.rc == 0 else newer)])

    def trusted(self) -> t.Tuple[str, ...]:
        # rpm fails where it was never taught a key.
        done = self._host.run([*RPM_KEYS, "gpg-pubkey"], check=False)
        return tuple(done.out.split()) if done.rc == 0 else ()

    def trust(self, path: str) -> None:
        self._call(["rpm", "--import", path])

    def distrust(self, keys: t.Sequence[str]) -> None:
        self._call(["rpm", "--erase", *(f"gpg-pubkey-{one}" for one in keys)])

    def _needed(self, names: t.Set[str]) -> t.Tuple[t.Set[str], t.Set[str]]:
        done = self._call(["rpm", "--erase", "--test", *sorted(names)], check=False)
        needs = rpm.parse_needs(done.err + done.out)
        if done.rc == 0 or not needs:
            return set(), set()
        words = ["rpm", "-q", "--whatprovides", "--qf", "%{NAME}\\n"]
        asked = self._call([*words, *sorted({one for one, _user in needs})], check=False)
        needed = names & set(asked.out.split())
        if not needed:
            raise NodeError(
                "rpm does not say which of the added packages others need",
                cause=tail(done),
                hint="remove the packages that it names, then run again",
            )
        return {user for _needed, user in needs}, needed
