# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What shows that a GPU was reset, where the driver does not say so itself. Pure.

Of a GPU that waits for a reset the readings are kept that another initialisation changes:

* The energy that it consumed "since the driver was last reloaded" (nvmlDeviceGetTotalEnergyConsumption,
  Volta and later). It grows all the time, so where it is far less than it was, the driver initialised
  the GPU again; a reading that is a little less is no more than a bad reading. The driver also
  initialises a GPU when a process opens it that nobody had open, unless persistence mode is on (as
  nvmlEccCounterType_t says of its counters): the daemon's own restart would look like a reset. So it
  counts only where persistence mode was on.
* A memory row that waits for a reset (nvmlDeviceGetRemappedRows, Ampere and later), and no longer does.
* The GPU's entries in /sys and /proc, which are others after it was taken off the bus, or from the
  driver, and given back. The driver makes its own when it is given a GPU (nv_procfs_add_gpu, called by
  nv_pci_probe in its open kernel modules), and not when it initialises one.

None of the three was seen on hardware yet; they follow NVML's documentation, that of persistence mode
(docs.nvidia.com/deploy/driver-persistence: it keeps a GPU initialised without clients) and that source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..model.inventory import GpuView

FALL: Final = 2  # by which it is less at least after it began again
GROWTH: Final = 1.1  # by which the energy has to grow to be kept anew, since that writes a file


@dataclass(frozen=True)
class _Readings:
    """What a GPU told. ``energy`` is in millijoules, None where it would show nothing."""

    energy: int | None
    pending: bool
    entries: tuple[int | None, ...]


class Resets:
    """The readings of GPUs that wait for a reset."""

    def __init__(self) -> None:
        self._kept: dict[str, _Readings] = {}

    def reset(self, view: GpuView) -> str:
        """Return what shows a reset since the readings were kept; nothing where none does."""
        before, now = self._kept.get(view.gpu.uuid), _readings(view)
        if before is None:
            return ""
        energy = view.condition.energy
        if before.energy is not None and energy is not None and energy < before.energy / FALL:
            return "its energy counter began again"
        if before.pending and not now.pending and view.condition.signs.rows:
            return "no memory row waits for a reset any more"
        both = zip(before.entries, now.entries, strict=False)
        if any(old is not None and new is not None and old != new for old, new in both):
            return "it was taken off the bus or from the driver, and given back"
        return ""

    def keep(self, view: GpuView) -> None:
        """Keep the readings of a GPU that waits for a reset."""
        before, now = self._kept.get(view.gpu.uuid), _readings(view)
        if before is not None:
            grown = now.energy is not None and now.energy > (before.energy or 0) * GROWTH
            energy = now.energy if grown or now.energy is None else before.energy
            now = _Readings(energy, now.pending or before.pending, before.entries or now.entries)
        self._kept[view.gpu.uuid] = now

    def forget(self, uuid: str) -> None:
        """Forget a GPU, which waits for nothing any more."""
        self._kept.pop(uuid, None)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()

    def shows(self, uuid: str) -> bool:
        """Tell whether a reset of this GPU alone would show."""
        kept = self._kept.get(uuid)
        return kept is not None and (kept.energy is not None or kept.pending)

    def memory(self) -> dict[str, Any]:
        """Return what is kept, as JSON can hold it."""
        return {uuid: asdict(kept) for uuid, kept in self._kept.items()}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Take over what another process kept. Any error of a wrong shape or value: it is none."""
        self._kept = {str(uuid): _recalled(one) for uuid, one in memory.items()}


def _readings(view: GpuView) -> _Readings:
    told = view.condition
    energy = told.energy if told.persistent else None
    rows = told.signs.rows
    return _Readings(energy, bool(rows and rows.pending), view.entries)


def _recalled(data: Mapping[str, Any]) -> _Readings:
    energy = None if data["energy"] is None else int(data["energy"])
    entries = tuple(None if one is None else int(one) for one in data["entries"])
    return _Readings(energy, bool(data["pending"]), entries)
