# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The units that have a node's label choose its MIG layout, on the node."""

from __future__ import annotations

from ..._base.boot import unit_file
from ..._machine.host import Host, properties
from ..label import PATH_UNIT, TEXTS, Units


def observe(host: Host, *, wanted: bool) -> Units:
    """Read the units of a MIG layout by label; systemd is asked only where they are wanted."""
    texts = {unit: host.read(unit_file(unit)) for unit in TEXTS}
    names = ("ActiveState", "UnitFileState")
    return Units(texts, properties(host, PATH_UNIT, *names) if wanted else {})
