# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What capabilities ask of a package manager, as a protocol: apt, dnf and zypper answer it."""

from __future__ import annotations

import typing as t

from ..._core.packages.apt_sources import Source
from ..._core.packages.package import Package, Policy
from ..._core.packages.transaction import Change, Removal, Simulation


class PackageManager(t.Protocol):
    """A node's package manager, through its own commands."""

    def packages(self) -> t.Dict[str, Package]:
        """Return the packages that are there or on hold."""

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        """Return what the sources offer."""

    def known(self, prefix: str) -> t.List[str]:
        """Return the names of the packages that begin so, offered or installed."""

    def interrupted(self) -> bool:
        """Tell whether a transaction was killed."""

    def sources(self) -> t.Tuple[Source, ...]:
        """Return the node's own sources, as far as components can be enabled in them."""

    def removal(self, names: t.Collection[str]) -> Removal:
        """Return what the removal of packages that are there comes to: what others need stays."""

    def update(self) -> str:
        """Fetch the package lists and return what was wrong with it; some failing is no failure."""

    def simulate(self, change: Change) -> Simulation:
        """Return what a transaction would do; NodeError when there is no way."""

    def change(self, change: Change) -> None:
        """Carry a transaction out."""

    def automatic(self) -> t.FrozenSet[str]:
        """Return the packages that only came because others depend on them."""

    def restore(self, change: Change, automatic: t.Collection[str]) -> None:
        """Put packages back as they were; those of ``automatic`` came as dependencies."""

    def by_hand(self, change: Change) -> str:
        """Return the command with which a person does the same."""

    def purge(self, names: t.Sequence[str]) -> None:
        """Remove packages and no other package."""

    def repair(self) -> None:
        """Finish what a killed transaction has begun."""

    def hold(self, names: t.Sequence[str]) -> None:
        """Keep packages at their version."""

    def release(self, names: t.Sequence[str]) -> None:
        """Take packages off hold."""

    def clean(self) -> None:
        """Remove what a killed run left of our own."""

    def trusted(self) -> t.Tuple[str, ...]:
        """Return the keys that all repositories are believed for, as rpm names them; apt has none."""

    def trust(self, path: str) -> None:
        """Believe a key."""

    def distrust(self, keys: t.Sequence[str]) -> None:
        """Forget keys."""
