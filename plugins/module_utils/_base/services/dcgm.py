# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM's services, and those of them that gpu.node.dcgm manages by its record."""

from __future__ import annotations

import typing as t

from ..errors import readable
from ..text import json_data

DCGM_UNIT = "nvidia-dcgm.service"
UNIT = "gpu-dcgm-exporter.service"
RECORD = "/var/lib/gpu-node/dcgm.json"  # of gpu.node.dcgm


def managed(text: t.Optional[str]) -> t.Tuple[str, ...]:
    """Return the services that gpu.node.dcgm manages, from its record, in the order of stopping.

    They hold the GPUs open, and are stopped for changes of the driver; clients of the engine are stopped before it.

    Raises:
        NodeError: if the record is damaged.
    """
    if not text:
        return ()
    with readable(RECORD, "remove the file; what earlier runs added then counts as your own"):
        ours = frozenset(map(str, json_data.loads(text).get("managed", ())))
    return tuple(unit for unit in (UNIT, DCGM_UNIT) if unit in ours)
