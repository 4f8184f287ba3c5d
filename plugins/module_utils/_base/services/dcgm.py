# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM's services, and which of them the record of gpu.node.dcgm calls managed."""

from __future__ import annotations

import typing as t

from ..errors import readable
from ..text import json_data

DCGM_UNIT = "nvidia-dcgm.service"
UNIT = "gpu-dcgm-exporter.service"


def managed(text: t.Optional[str], path: str) -> t.FrozenSet[str]:
    """Return the units that are ours to stop, from the record's text. NodeError: it is damaged."""
    if not text:
        return frozenset()
    with readable(path, "remove the file; what earlier runs added then counts as your own"):
        return frozenset(map(str, json_data.loads(text).get("managed", ())))
