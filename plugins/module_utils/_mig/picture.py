# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU's memory grid in a few lines of text."""

from __future__ import annotations

import typing as t

from .._base.gpu import GiProfile, Gpu


class Placed(t.NamedTuple):
    """An instance, there or to be: its profile, and its placement as nvidia-smi mig -lgi prints it."""

    profile: str
    start: int
    size: int

    def __str__(self) -> str:
        return f"{self.profile} at placement {self.start}:{self.size}"


def picture(
    gpu: Gpu,
    profiles: t.Sequence[GiProfile],
    placed: t.Sequence[Placed],
    *,
    enabled: t.Optional[bool] = None,
) -> str:
    """Return a GPU in a few lines: its MIG mode, its memory grid, and its instances in their order.

    ``enabled`` is for the GPU as it is to become; without it the GPU's own mode is shown.
    """
    on = gpu.mig_current if enabled is None else enabled
    lines = [f"GPU {gpu.index} {gpu.uuid} {gpu.name}: MIG {'on' if on else 'off'}"]
    if on:
        placed = sorted(placed, key=lambda one: one.start)
        lines += [f"  {_grid(profiles, placed)}", *(f"  - {one}" for one in placed)]
    return "\n".join(line.rstrip() for line in lines)


def _grid(profiles: t.Sequence[GiProfile], placed: t.Sequence[Placed]) -> str:
    """Return one line: each instance in brackets, as wide as it is large; free slices are points."""
    total = max((at + size for one in profiles for at, size in one.placements), default=0)
    width = max(3, 72 // total) if total else 0
    starts = {one.start: one for one in placed}
    cells, at = [], 0
    while at < total:
        one = starts.get(at)
        if one is None:
            cells.append(f"{'.':^{width}}")
            at += 1
        else:
            inner = width * one.size - 2
            cells.append(f"[{one.profile[:inner]:^{inner}}]")
            at += one.size
    return "".join(cells)
