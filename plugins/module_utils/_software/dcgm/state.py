# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the node has of DCGM, and what was added to it."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.packages import package
from .. import state

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
class Observed(state.Observed[Record]):
    """What the node has.

    ``driver`` is the driver's version, empty without one. ``services`` have systemd's properties by unit, ``files``
    the texts of the exporter's files by path. ``digest`` is the SHA-256 of the program, empty where it is not there,
    ``running`` the settings that the exporter's process was started with.
    """

    driver: str = ""
    services: t.Mapping[str, Properties] = dataclasses.field(default_factory=dict)
    files: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    digest: str = ""
    running: str = ""

    def active(self, unit: str) -> bool:
        """Tell whether a service runs."""
        return self.services.get(unit, {}).get("ActiveState") == "active"

    def enabled(self, unit: str) -> bool:
        """Tell whether a service starts at boot."""
        return self.services.get(unit, {}).get("UnitFileState") == "enabled"
