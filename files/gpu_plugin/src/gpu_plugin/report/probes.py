# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the daemon lives, and whether it does its work. Pure."""

from __future__ import annotations

from typing import Final

from ..observer import Seen

STUCK: Final = 30.0  # as the unit's watchdog


def health(seen: Seen, now: float) -> str:
    """Return what is wrong with the daemon itself, or nothing. ``now`` is monotonic."""
    if now - seen.ran_at > STUCK:
        return f"the main loop has not gone round for {now - seen.ran_at:.0f} seconds"
    return ""


def readiness(seen: Seen, now: float) -> str:
    """Return what keeps pods from getting devices, or nothing."""
    if problem := health(seen, now):
        return problem
    if not seen.state:
        return "starting"
    if seen.state["problem"]:
        return str(seen.state["problem"])
    missing = [name for name, one in seen.state["resources"].items() if not one["registered"]]
    if missing:
        return f"not registered with the kubelet: {', '.join(missing)}"
    return ""
