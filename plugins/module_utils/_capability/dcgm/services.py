# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM's services that gpu.node.dcgm manages: they hold the GPUs open, and make way for changes of the driver."""

from __future__ import annotations

import atexit
import typing as t

from ..._core.dcgm import units
from ..._core.dcgm.units import DCGM_UNIT, UNIT
from ..._host.api import Host

RECORD = "/var/lib/gpu-node/dcgm.json"
# Who connects to the engine goes first.
ORDER = (UNIT, DCGM_UNIT)


def managed(host: Host) -> t.Tuple[str, ...]:
    """Return the units that are ours to stop, in the order of stopping them."""
    ours = units.managed(host.read(RECORD), RECORD)
    return tuple(one for one in ORDER if one in ours)


class Pause:
    """A time without our services of DCGM. They start again at its end, which is the process's at the latest."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._stopped: t.List[str] = []

    def begin(self) -> None:
        """Stop those that run, unless that was done."""
        if self._stopped:
            return
        atexit.register(self.end)
        for unit in managed(self._host):
            if self._host.run(["systemctl", "is-active", unit], check=False).rc == 0:
                self._stopped.append(unit)
                self._host.run(["systemctl", "stop", unit])

    def end(self) -> None:
        """Start again what was stopped."""
        atexit.unregister(self.end)
        while self._stopped:
            self._host.run(["systemctl", "start", self._stopped.pop()], check=False)
