# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where instances go on a GPU's memory grid: keep the most, then place the rest."""

from __future__ import annotations

import itertools
import typing as t

from .._nvml.api import GiProfile, GpuInstance
from .errors import NodeError

Place = t.Tuple[GiProfile, int]


class Found(t.NamedTuple):
    """The instances that stay where they are, and the places for those to be created."""

    keep: t.Tuple[GpuInstance, ...]
    create: t.Tuple[Place, ...]


def arrange(
    profiles: t.Sequence[GiProfile],
    existing: t.Sequence[GpuInstance],
    layout: t.Mapping[str, int],
    busy: t.Collection[int] = (),
) -> Found:
    """Return the arrangement that keeps the busy instances first and then the most of the others.

    ``busy`` holds ids of instances in use. Raises NodeError when the layout fits in no way.
    """
    by_name = {one.name: one for one in profiles}
    for name in layout:
        if name not in by_name:
            raise NodeError(
                f"the GPU does not offer the profile {name}",
                cause=f"it offers {', '.join(sorted(by_name)) or 'none'}",
            )
    check_counts(profiles, layout)
    candidates = [one for one in existing if _name(profiles, one) in layout]
    for size in range(len(candidates), -1, -1):
        best: t.Optional[t.Tuple[int, Found]] = None
        for keep in itertools.combinations(candidates, size):
            held = sum(one.id in busy for one in keep)
            if best is not None and held <= best[0]:
                continue
            create = _complete(profiles, by_name, keep, layout)
            if create is not None:
                best = (held, Found(keep, create))
        if best is not None:
            return best[1]
    raise NodeError(
        f"{describe(layout)} does not fit on the GPU",
        cause="no arrangement on its memory grid holds all of them at once",
    )


def check_counts(profiles: t.Sequence[GiProfile], layout: t.Mapping[str, int]) -> None:
    """Refuse more instances of a profile, or more slices, than the GPU has."""
    by_name = {one.name: one for one in profiles}
    for name, count in layout.items():
        if count > by_name[name].max_count:
            raise NodeError(
                f"{count} x {name} do not fit on the GPU",
                cause=f"at most {by_name[name].max_count} do",
            )
    slices = sum(by_name[name].slices * count for name, count in layout.items())
    most = max((one.slices for one in profiles), default=0)
    if slices > most:
        raise NodeError(
            f"{describe(layout)} does not fit on the GPU",
            cause=f"it takes {slices} of {most} slices",
        )


def describe(layout: t.Mapping[str, int]) -> str:
    """Return a layout in words."""
    return ", ".join(f"{count} x {name}" for name, count in sorted(layout.items())) or "no instance"


def _name(profiles: t.Sequence[GiProfile], instance: GpuInstance) -> str:
    return next((one.name for one in profiles if one.id == instance.profile_id), "")


def _complete(
    profiles: t.Sequence[GiProfile],
    by_name: t.Mapping[str, GiProfile],
    keep: t.Sequence[GpuInstance],
    layout: t.Mapping[str, int],
) -> t.Optional[t.Tuple[Place, ...]]:
    """Return places for what the kept instances leave to be created, or None."""
    left = dict(layout)
    taken = 0
    for one in keep:
        name = _name(profiles, one)
        left[name] -= 1
        if left[name] < 0:
            return None
        taken |= _mask(one.start, one.size)
    todo = [by_name[name] for name, count in left.items() for _copy in range(count)]
    todo.sort(key=lambda one: (-max(size for _at, size in one.placements), one.id))
    return _place(todo, taken, -1)


def _mask(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


def _place(todo: t.Sequence[GiProfile], taken: int, after: int) -> t.Optional[t.Tuple[Place, ...]]:
    if not todo:
        return ()
    first, rest = todo[0], todo[1:]
    same_next = bool(rest) and rest[0] is first
    for start, size in sorted(first.placements):
        # Equal instances are placed from left to right, so that no arrangement is tried twice.
        if start <= after or taken & _mask(start, size):
            continue
        found = _place(rest, taken | _mask(start, size), start if same_next else -1)
        if found is not None:
            return ((first, start), *found)
    return None
