# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the node has of DCGM, and what was added to it."""

from __future__ import annotations

import dataclasses
import typing as t

from ..packages import package
from ..packages.package import Package, Policy, Removal

Properties = t.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Record(package.Record):
    """What earlier runs added.

    ``managed`` are the services that are stopped and started around changes of the driver and of MIG layouts,
    ``enabled`` those that were not enabled before. ``exporter`` says that the exporter's files are there.
    """

    managed: t.FrozenSet[str] = frozenset()
    enabled: t.FrozenSet[str] = frozenset()
    exporter: bool = False


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the node has.

    ``driver`` is the driver's version, empty without one. ``services`` have systemd's properties by unit, ``files``
    the texts of the exporter's files by path. ``digest`` is the SHA-256 of the program, empty where it is not there,
    ``running`` the settings that the exporter's process was started with. ``refreshed`` says that this run has fetched
    the package lists, ``note`` what went wrong with it. ``removal`` is there when additions are to be removed again
    and dpkg is in order.
    """

    family: str
    packages: t.Mapping[str, Package]
    policies: t.Mapping[str, Policy]
    record: Record
    driver: str = ""
    services: t.Mapping[str, Properties] = dataclasses.field(default_factory=dict)
    files: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    digest: str = ""
    running: str = ""
    interrupted: bool = False
    refreshed: bool = False
    note: str = ""
    removal: t.Optional[Removal] = None

    def version(self, name: str) -> t.Optional[str]:
        """Return the version of a package that is installed."""
        found = self.packages.get(name)
        return found.version if found and found.installed else None

    def versions(self, name: str) -> t.Tuple[str, ...]:
        """Return every version that can be had, newest first, the installed one among them."""
        policy, have = self.policies.get(name), self.version(name)
        offered = policy.versions if policy else ()
        return offered if have is None or have in offered else (*offered, have)

    def held(self, name: str) -> bool:
        """Tell whether a package is on hold."""
        return name in self.packages and self.packages[name].held

    def active(self, unit: str) -> bool:
        """Tell whether a service runs."""
        return self.services.get(unit, {}).get("ActiveState") == "active"

    def enabled(self, unit: str) -> bool:
        """Tell whether a service starts at boot."""
        return self.services.get(unit, {}).get("UnitFileState") == "enabled"

    @property
    def unfinished(self) -> bool:
        """Tell whether a transaction was killed."""
        return self.interrupted or any(one.broken for one in self.packages.values())
