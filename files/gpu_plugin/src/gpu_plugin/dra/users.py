# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which pods have which claims, by the kubelet's own file (pkg/kubelet/cm/dra/state).

It writes a pod down before it has the pod's claims prepared, and before any of its containers starts, also where a
claim was prepared for another pod already; it drops a claim after it was unprepared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from .._shared._base.errors import readable
from ..tools import bounded, files

STATE: Final = "dra_manager_state"  # below the kubelet's root folder
LONGEST: Final = 64 << 20
HINT: Final = "take a release of gpu.node that knows this version of the kubelet"


class Users:
    """``kubelet`` is the kubelet's root folder. Any thread may call."""

    def __init__(self, kubelet: Path) -> None:
        self._path = kubelet / STATE

    def stamp(self) -> files.Stamp | None:
        """Return the stamp of the kubelet's file, None if there is none."""
        return files.stamp(self._path)

    def read(self, driver: str = "") -> dict[str, frozenset[str]]:
        """Return the UIDs of pods by those of their claims, none if there is no kubelet.

        With ``driver``, only of claims that have something of it.

        Raises:
            NodeError, OSError: if the kubelet's file can't be read.
        """
        try:
            text = bounded.read(self._path, LONGEST)
        except FileNotFoundError:
            return {}
        with readable(str(self._path), HINT):
            listed = json.loads(json.loads(text)["Data"])["ClaimInfoStateList"]
            return {
                claim["ClaimUID"]: frozenset(claim["PodUIDs"] or ())
                for claim in listed or ()
                if not driver or driver in claim.get("DriverState", (driver,))
            }
