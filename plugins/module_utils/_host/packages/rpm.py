# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""rpm, which dnf and zypper stand on: it knows what is installed and what needs it."""

from __future__ import annotations

import re
import typing as t

from ..._core.errors import NodeError
from ..._core.packages import rpm
from ..._core.packages.apt_sources import Source
from ..._core.packages.package import Package
from ..._core.packages.transaction import Change, Removal
from ..api import Completed, Host
from .caller import Caller, tail

RPM_BUSY = re.compile(r"transaction lock on|Existing lock |[Ww]aiting for process with pid")
RPM_KEYS = ("rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}\\n")
# dnf's shell ends with status 0 all the same; nothing was done then.
DNF_LOCKED = re.compile(r"^Error: .* already locked by \d+", re.M)


def _of(name: str, version: str) -> str:
    """Return how rpm calls one version of a package."""
    return f"{name}-{version.split(':')[-1]}"


class Rpm:
    """What both have in common: rpm knows what is installed and what needs it."""

    def __init__(self, host: Host, timeout: float, purpose: str) -> None:
        self._host, self._purpose = host, purpose
        self._call = Caller(host, timeout, self._is_busy, {})

    def _is_busy(self, done: Completed) -> bool:
        said = f"{done.out}\n{done.err}"
        return bool(DNF_LOCKED.search(said) or (done.rc != 0 and RPM_BUSY.search(said)))

    def _locked(self) -> t.FrozenSet[str]:
        raise NotImplementedError

    def packages(self) -> t.Dict[str, Package]:
        """Return the packages that are there or locked."""
        return rpm.parse_packages(self._all(), self._locked())

    def _all(self) -> str:
        return self._host.run(["rpm", "-qa", "--qf", rpm.RPM_FORMAT]).out

    def interrupted(self) -> bool:
        """Packages that are there twice tell, and are marked; rpm has no journal for outsiders."""
        return False

    def repair(self) -> None:
        """Take away what a killed upgrade left of the older version, or a downgrade of the newer."""
        found = rpm.doubles(self._all())
        older = [_of(name, one) for name, versions in found for one in versions[:-1]]
        newer = [_of(name, one) for name, versions in found for one in versions[1:]]
        if found:
            test = self._call(["rpm", "--erase", "--test", *older], check=False)
            self._call(["rpm", "--erase", *(older if test.rc == 0 else newer)])

    def sources(self) -> t.Tuple[Source, ...]:
        """Repositories of rpm packages have no components that could be enabled."""
        return ()

    def clean(self) -> None:
        """Nothing is left behind."""

    def trusted(self) -> t.Tuple[str, ...]:
        """Return rpm's keys as VERSION-RELEASE; it has none where it was never taught one."""
        done = self._host.run([*RPM_KEYS, "gpg-pubkey"], check=False)
        return tuple(done.out.split()) if done.rc == 0 else ()

    def trust(self, path: str) -> None:
        """Believe a key, for all repositories: rpm knows no other way."""
        self._call(["rpm", "--import", path])

    def distrust(self, keys: t.Sequence[str]) -> None:
        """Forget keys."""
        self._call(["rpm", "--erase", *(f"gpg-pubkey-{one}" for one in keys)])

    def removal(self, names: t.Collection[str]) -> Removal:
        """Return what the removal of packages that are there comes to: what others need stays."""
        ours = set(names)
        kept: t.Set[str] = set()
        users: t.Set[str] = set()
        while ours - kept:
            done = self._call(["rpm", "--erase", "--test", *sorted(ours - kept)], check=False)
            needs = rpm.parse_needs(done.err + done.out)
            if done.rc == 0 or not needs:
                break
            users |= {user for _needed, user in needs} - ours
            words = ["rpm", "-q", "--whatprovides", "--qf", "%{NAME}\\n"]
            asked = self._call([*words, *sorted({one for one, _user in needs})], check=False)
            needed = set(asked.out.split()) & (ours - kept)
            if not needed:
                raise NodeError(
                    "rpm does not say which of the added packages others need",
                    cause=tail(done),
                    hint="remove the packages that it names, then run again",
                )
            kept |= needed
        return Removal(tuple(sorted(ours - kept)), tuple(sorted(kept)), tuple(sorted(users)))

    def automatic(self) -> t.FrozenSet[str]:
        """Return nothing: rpm knows no dependencies that came by themselves."""
        return frozenset()

    def _refuse(self, tool: str, done: Completed, change: Change) -> NodeError:
        said = rpm.zypper_messages(done.out) + "\n" + done.err
        named = set(re.findall(r"[A-Za-z0-9][A-Za-z0-9_+.-]+", said))
        held = sorted((self._locked() & named) - change.holds)
        what = f" while {', '.join(held)} is locked" if held else ""
        return NodeError(
            f"{tool} finds no way to install {self._purpose}{what}; nothing was changed",
            cause=tail(Completed(done.rc, said, "")),
            hint=f"remove the lock: {self.unlock_words} {' '.join(held)}"
            if held
            else f"look at the packages that {tool} names: a repository or an exclusion is in the way",
        )

    unlock_words = ""
