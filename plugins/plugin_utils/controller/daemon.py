# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's own readers, on the controller: what it would refuse is refused in its words."""

from __future__ import annotations

import importlib
import sys
import typing as t
from pathlib import Path

SOURCES = str(Path(__file__).resolve().parents[3] / "files/gpu_plugin/src")


def imported(name: str) -> t.Any:
    """Return a module of the daemon's package that needs no library but PyYAML, such as hami.settings."""
    if SOURCES not in sys.path:
        sys.path.append(SOURCES)
    return importlib.import_module(f"gpu_plugin.{name}")
