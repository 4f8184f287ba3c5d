# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the daemon serves at the moment, for its status file, its metrics and systemd."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from .._shared._core.errors import NodeError
from ..config.reload import InForce
from ..observer import Observer
from ..offer.devices import Devices, Inventory
from ..status import StatusFile
from ..tools.chores import Chore


def state(
    pid: int,
    configuration: InForce,
    inventory: Inventory,
    refusal: NodeError | None,
    devices: Mapping[str, Devices],
    registered: Mapping[str, bool],
    mps: Mapping[str, Any],
    chores: Mapping[str, str | None],
) -> dict[str, Any]:
    """Return it as JSON can hold it. ``chores`` are their errors."""
    absent = inventory.absent
    return {
        "version": __version__,
        "pid": pid,
        "config_sha256": configuration.digest,
        "config_problem": configuration.problem or None,
        "driver_version": None if absent else inventory.driver_version,
        "state": "waiting_for_driver" if absent else "refused" if refusal else "serving",
        "problem": absent or (str(refusal) if refusal else None),
        "resources": {
            name: {
                "devices": those.health,
                "problems": those.problems,
                "registered": registered.get(name, False),
            }
            for name, those in devices.items()
        },
        "mps": mps,
        "chores": chores,
        "gpu_uuids": [view.gpu.uuid for view in inventory.gpus],
        "mig_uuids": inventory.mig_uuids,
    }


class Report:
    """Keeps the status file, and gives the same to the metrics."""

    def __init__(self, path: Path, observer: Observer) -> None:
        self._observer = observer
        self._last: Mapping[str, Any] = {}
        file = StatusFile(path)
        self.still_true, self.remove = file.still_true, file.remove
        self.chore = Chore("status_file", "the status file can't be written", file.write)

    def write(self, found: dict[str, Any]) -> tuple[str, ...]:
        """Take over a state, which must not change any more. Returns the lines that systemd needs."""
        self._observer.round(found)
        self.chore.run(found)
        if found == self._last:
            return ()
        self._last = found
        resources = found["resources"]
        count = sum(len(one["devices"]) for one in resources.values())
        summary = f"{found['state']}: {count} devices of {len(resources)} resources"
        return (f"STATUS={found['problem'] or summary}",)
