# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What people are given to watch a node with: the page, the dashboard and the alerts."""

from __future__ import annotations

import re
from pathlib import Path

from gpu_plugin.observer import Observer
from gpu_plugin.telemetry.families import Families

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs/observability.md").read_text()


def declared() -> dict[str, tuple[str, ...]]:
    """Each metric's labels by its name."""
    return {
        one.name + ("_total" if one.type == "counter" else ""): tuple(one._labelnames)  # type: ignore[attr-defined]
        for one in Families(Observer().seen, lambda: ()).collect()
    }


def test_the_page_has_all_metrics_with_their_labels() -> None:
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("| `gpu_plugin_")]
    shown = {row[1].strip(" `"): tuple(re.findall(r"`(\w+)`", row[2])) for row in rows}
    assert shown == declared()
