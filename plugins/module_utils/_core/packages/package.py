# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A package as package managers see it: what is there of it, and what is offered."""

from __future__ import annotations

import enum
import typing as t


class State(enum.Enum):
    """What is there of a package, in dpkg's words; rpm knows the first, the last and TWICE."""

    INSTALLED = "installed"
    CONFIG_FILES = "config-files"
    HALF_INSTALLED = "half-installed"
    UNPACKED = "unpacked"
    HALF_CONFIGURED = "half-configured"
    TRIGGERS_AWAITED = "triggers-awaited"
    TRIGGERS_PENDING = "triggers-pending"
    TWICE = "twice"  # a killed transaction of rpm has left two versions
    NOT_INSTALLED = "not-installed"


WAITING = (State.TRIGGERS_AWAITED, State.TRIGGERS_PENDING)
UNFINISHED = (
    *(State.HALF_INSTALLED, State.UNPACKED, State.HALF_CONFIGURED),
    *(*WAITING, State.TWICE),
)
GONE = (State.NOT_INSTALLED, State.CONFIG_FILES)


class Package(t.NamedTuple):
    """A package that is there, or that is kept at its version or away: ``held``.

    ``torn`` says that its files are not whole, and that it must be installed anew.
    """

    version: str
    source: str
    state: State
    held: bool = False
    torn: bool = False

    @property
    def installed(self) -> bool:
        """Tell whether it is unpacked and configured, maybe but for triggers."""
        return self.state in (State.INSTALLED, *WAITING, State.TWICE)

    @property
    def broken(self) -> bool:
        """Tell whether a transaction stopped in the middle of it."""
        return self.state in UNFINISHED or self.torn

    @property
    def gone(self) -> bool:
        """Tell whether nothing is left of it, or its configuration alone."""
        return self.state in GONE


class Policy(t.NamedTuple):
    """A package in the eyes of the sources: what would be taken, and all versions, newest first.

    Versions that a pin forbids are left out.
    """

    candidate: t.Optional[str]
    versions: t.Tuple[str, ...]


def still_there(names: t.Iterable[str], packages: t.Mapping[str, Package]) -> t.List[str]:
    """Return those of the names of which anything is there, configuration included."""
    return [
        name
        for name in names
        if name in packages and packages[name].state is not State.NOT_INSTALLED
    ]
