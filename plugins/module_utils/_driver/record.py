# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What gpu.node has added to a node for its driver, written down so that it can be removed again."""

from __future__ import annotations

import dataclasses
import typing as t

from .module_options.record import Written


@dataclasses.dataclass(frozen=True)
class Record(Written):
    """The additions; of the packages, ``requested`` are those that were asked for.

    ``sources``, ``service`` and ``fabric`` say that a sources file is there and services were enabled.
    ``runfile`` is what NVIDIA's installer brought, version and module type, or "?" where it was cut off.
    ``stream`` is the module stream that was enabled, ``stream_before`` the one that was enabled then.
    ``module_disabled`` says that the module was disabled then.
    ``adopted`` are the driver's packages that were taken over, as "name version", ``earlier`` all that were there
    before the first transaction, at the version that they had before one changed them. ``automatic`` are those of both
    that came as dependencies, ``exchanged`` those that we have changed or removed since. ``replaced`` is the version of
    a driver from NVIDIA's installer that packages, or another version of it, have taken the place of.
    ``device_nodes`` says that a unit makes device nodes at boot, ``persistence_mode`` that our drop-in is there.
    """

    sources: bool = False
    service: bool = False
    fabric: bool = False
    requested: t.FrozenSet[str] = frozenset()
    runfile: str = ""
    stream: str = ""
    stream_before: str = ""
    module_disabled: bool = False
    adopted: t.FrozenSet[str] = frozenset()
    earlier: t.FrozenSet[str] = frozenset()
    automatic: t.FrozenSet[str] = frozenset()
    exchanged: t.FrozenSet[str] = frozenset()
    replaced: str = ""
    device_nodes: bool = False
    persistence_mode: bool = False

    @property
    def before(self) -> t.Dict[str, str]:
        """Return the versions that packages had when they were taken over."""
        return versions(self.adopted)

    @property
    def foreign_packages(self) -> t.Dict[str, str]:
        """Return the versions of the driver's packages of others, as ``absent`` gives them back."""
        return {**self.before, **versions(self.earlier)}


def versions(texts: t.Iterable[str]) -> t.Dict[str, str]:
    """Return versions by their packages, each given as "name version"."""
    return {name: version for name, _space, version in (text.partition(" ") for text in texts)}
