# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is asked of a package manager, and what it would do."""

from __future__ import annotations

import typing as t


class Change(t.NamedTuple):
    """One transaction: packages with their versions (None takes any), those to go, and what we hold.

    ``pins`` are the versions of source packages, for what the packages depend on.
    """

    packages: t.Mapping[str, t.Optional[str]]
    remove: t.Sequence[str]
    pins: t.Mapping[str, str]
    holds: t.FrozenSet[str]


class Simulation(t.NamedTuple):
    """What a transaction would install anew, bring to another version, and remove.

    The names of packages of foreign architectures end in them: libcuda1:i386.
    """

    new: t.Tuple[str, ...]
    changed: t.Tuple[str, ...]
    removed: t.Tuple[str, ...]


class Removal(t.NamedTuple):
    """What taking back additions comes to: what goes, what others need, and who needs it."""

    packages: t.Tuple[str, ...]
    kept: t.Tuple[str, ...]
    users: t.Tuple[str, ...]
