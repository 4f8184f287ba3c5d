# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM's services that gpu.node.dcgm manages: they hold the GPUs open, and make way for changes of the driver."""

from __future__ import annotations

import typing as t

from ..._base.services import dcgm
from ..._base.services.dcgm import DCGM_UNIT, UNIT
from ..._machine.host import Host

RECORD = "/var/lib/gpu-node/dcgm.json"
# Who connects to the engine goes first.
ORDER = (UNIT, DCGM_UNIT)


def managed(host: Host) -> t.Tuple[str, ...]:
    """Return the units that are ours to stop, in the order of stopping them."""
    ours = dcgm.managed(host.read(RECORD), RECORD)
    return tuple(service for service in ORDER if service in ours)
