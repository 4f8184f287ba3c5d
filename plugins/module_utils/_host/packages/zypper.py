# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""zypper."""

from __future__ import annotations

import contextlib
import shlex
import typing as t

from ..._core.packages import rpm
from ..._core.packages.package import Change, Policy, Simulation
from ..api import Completed
from .api import tail
from .rpm import Rpm

ZYPPER_LOCKS = "/etc/zypp/locks"
ZYPPER_BUSY = 7
ZYPPER_NOTHING_FOUND = 104
# Installed, but a restart or a reboot is advised, or a script of a package has complained.
ZYPPER_GOOD = (0, 102, 103, 106, 107)


class Zypper(Rpm):
    """zypper, whose locks keep packages at their version, and must be off while we change them."""

    tool, unhold = "zypper", "remove the lock: zypper removelock"

    def _is_busy(self, done: Completed) -> bool:
        return done.rc == ZYPPER_BUSY or super()._is_busy(done)

    def _locked(self) -> t.FrozenSet[str]:
        return rpm.parse_zypper_locks(self._host.read(ZYPPER_LOCKS) or "")

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        return self._search(["--match-exact", *(name for name in names if name)])

    def known(self, prefix: str) -> t.List[str]:
        return sorted(self._search([f"{prefix}*"]))

    def _search(self, words: t.Sequence[str]) -> t.Dict[str, Policy]:
        options = ["--xmlout", "--no-refresh", "search", "--details", "--type", "package"]
        done = self._zypper([*options, *words], good=(0, ZYPPER_NOTHING_FOUND))
        return rpm.parse_zypper_search(done.out)

    def update(self) -> str:
        done = self._zypper(["refresh"], check=False)
        return "" if done.rc == 0 else tail(done)

    def simulate(self, change: Change) -> Simulation:
        with self._unlocked(change):
            done = self._install(["--xmlout"], ["--dry-run"], change, check=False)
        if done.rc not in ZYPPER_GOOD:
            raise self._no_way(done._replace(out=rpm.zypper_messages(done.out)), change)
        return rpm.parse_zypper_summary(done.out)

    def change(self, change: Change) -> None:
        with self._unlocked(change):
            self._install([], [], change)

    @contextlib.contextmanager
    def _unlocked(self, change: Change) -> t.Iterator[None]:
        """Take our locks off for the time inside; what is gone then gets none again."""
        ours = sorted(self._locked() & change.holds)
        if ours:
            self.release(ours)
        try:
            yield
        finally:
            there = self.packages() if ours else {}
            again = [name for name in ours if name in there]
            if again:
                self.hold(again)

    def by_hand(self, change: Change) -> str:
        return shlex.join(["zypper", "install", "--oldpackage", *_names(change)])

    def purge(self, names: t.Sequence[str]) -> None:
        if names:
            self._call(["rpm", "--erase", "--test", *names])
            self._zypper(["remove", "--no-clean-deps", *names])

    def hold(self, names: t.Sequence[str]) -> None:
        self._zypper(["addlock", *names])

    def release(self, names: t.Sequence[str]) -> None:
        self._zypper(["removelock", *names])

    def _install(
        self, before: t.Sequence[str], more: t.Sequence[str], change: Change, *, check: bool = True
    ) -> Completed:
        words = [*before, "install", *more, "--no-recommends", "--oldpackage"]
        words += ["--auto-agree-with-licenses", *_names(change)]
        return self._zypper(words, check=check)

    def _zypper(
        self, words: t.Sequence[str], *, check: bool = True, good: t.Sequence[int] = ZYPPER_GOOD
    ) -> Completed:
        return self._call(["zypper", "--non-interactive", *words], check=check, good=good)


def _names(change: Change) -> t.List[str]:
    """Return what zypper is told to install, and with a mark before it to remove."""
    names = [f"{name}={version}" if version else name for name, version in change.packages.items()]
    return names + [f"!{name}" for name in change.remove]
