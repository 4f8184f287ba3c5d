# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the parts of one run share."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._core.driver.record import Record
from ..._core.driver.state import Desired, Observed
from ..._host.api import Host
from ..._host.packages.api import PackageManager
from ..recorded import Additions

Params = t.Mapping[str, t.Any]


@dataclasses.dataclass
class Node:
    """The machine, what is wanted of it and was added to it, and what this run has met with.

    ``refreshed`` says that it has fetched the package lists, ``refresh_note`` what went wrong with it,
    ``reload_note`` why it could not exchange the loaded modules.
    """

    host: Host
    desired: Desired
    manager: PackageManager
    added: Additions[Record]
    refreshed: bool = False
    refresh_note: str = ""
    reload_note: str = ""

    @property
    def kernel(self) -> str:
        """Return the running kernel."""
        return (self.host.read("/proc/sys/kernel/osrelease") or "").strip()


class Part(t.Protocol):
    """A source of the driver, or what is common to them; its steps are in the capability's table."""

    def observe(self, observed: Observed) -> Observed:
        """Add what it knows of the node."""
