# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The readers of both packages, on the controller: what they would refuse is refused in their words."""

from __future__ import annotations

import importlib
import sys
import typing as t
from pathlib import Path

FILES = Path(__file__).resolve().parents[3] / "files"
SOURCES = [str(FILES / name / "src") for name in ("gpu_plugin", "gpu_cluster")]


def imported(name: str) -> t.Any:
    """Return a module that needs no library but PyYAML, such as gpu_cluster.hami.settings."""
    sys.path += [source for source in SOURCES if source not in sys.path]
    return importlib.import_module(name)
