# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's services: the persistence daemon, and the fabric manager where there are NVSwitches."""

from __future__ import annotations

import typing as t

from ..steps import Step
from .state import Desired, Observed

SERVICE = "nvidia-persistenced.service"
FABRIC_SERVICE = "nvidia-fabricmanager.service"


def plan(observed: Observed, desired: Desired, *, start: bool) -> t.List[Step]:
    """Return the steps that enable the services, and start them where the driver is or gets loaded."""
    steps: t.List[Step] = []
    # NVIDIA's installer brings the persistence daemon without a unit.
    if desired.persistence and (
        observed.names.persistenced or observed.service.get("UnitFileState")
    ):
        steps += _service("persistence", SERVICE, observed.service, start=start)
    if observed.nvswitch and observed.names.fabric:
        steps += _service("fabric", FABRIC_SERVICE, observed.fabric, start=start)
    return steps


def _service(action: str, unit: str, states: t.Mapping[str, str], *, start: bool) -> t.List[Step]:
    # Ubuntu's unit is static: udev starts it, and there is nothing to enable.
    enabled = states.get("UnitFileState") in ("enabled", "static")
    active = states.get("ActiveState") == "active"
    if enabled and (active or not start):
        return []
    words = f"enable {'and start ' if start else ''}{unit}"
    return [Step(action, words, {"start": start, "was_enabled": enabled})]
