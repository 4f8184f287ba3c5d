# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The way back from a transaction that failed half-way: the packages as they were before it."""

from __future__ import annotations

import typing as t

from .package import Package, State


class Rollback(t.NamedTuple):
    """What to put back, each with its version, what must go, and what gets its hold back."""

    packages: t.Mapping[str, str]
    remove: t.Tuple[str, ...]
    holds: t.Tuple[str, ...]

    def __bool__(self) -> bool:
        """Tell whether anything differs."""
        return bool(self.packages or self.remove or self.holds)


def rollback(before: t.Mapping[str, Package], now: t.Mapping[str, Package]) -> Rollback:
    """Return what leads from the packages as they are now to those that were there before.

    Packages that were not installed before, or not in order, are no state to go back to: the former
    go, the latter stay as they are.
    """
    packages = {}
    for name, old in before.items():
        have = now.get(name)
        fine = old.installed and not old.broken
        if fine and (have is None or not have.installed or have.version != old.version):
            packages[name] = old.version
    there = {name for name, one in now.items() if not one.gone}
    known = {name for name, one in before.items() if not one.gone}
    holds = [
        name
        for name, old in before.items()
        if old.held and old.installed and not (name in now and now[name].held)
    ]
    return Rollback(packages, tuple(sorted(there - known)), tuple(sorted(holds)))


def in_words(wanted: Rollback, now: t.Mapping[str, Package]) -> t.Dict[str, str]:
    """Return the state of each package that is not as it was, in words."""
    found = {}
    for name in sorted({*wanted.packages, *wanted.remove}):
        have = now.get(name)
        state = have.state if have else State.NOT_INSTALLED
        version = f"{have.version}, " if have and have.version else ""
        found[name] = version + state.value
    return found
