# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG's rules as counters: what placements take of a GPU, so that they exclude each other as the hardware does.

A placement takes its memory slices, one by one, its compute slices, and its part of the media engines.
Where a GPU has fewer instances of a profile than that leaves room for, there is a counter of those.
``_mig/search`` has the same rules for layouts. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from .._shared._base.gpu import GiProfile, GpuInstance
from .._shared._mig.search import media

COMPUTE, ENGINES, MEDIA = "compute-slices", "media-engines", "media-extensions"
MOST_COUNTERS: Final = 32  # of a set in resource.k8s.io/v1
ALL, ONE, NONE = "+me.all", "+me", "-me"
Uses = Mapping[str, int]


class Grid:
    """The counters of a GPU in MIG mode, less what the ``standing`` instances hold.

    There are none where the hardware has more rules than one set of counters has room for; then
    nothing can be placed.
    """

    def __init__(self, profiles: Sequence[GiProfile], standing: Iterable[GpuInstance] = ()) -> None:
        self._profiles = {profile.id: profile for profile in profiles}
        self._standing = tuple(standing)

    @cached_property
    def counters(self) -> dict[str, int]:
        """What can still be placed, by counter; those that no placement takes are left out."""
        used = {name for _profile, _start, _size, uses in self.placements() for name in uses}
        return {name: left for name, left in self._left.items() if name in used}

    def placements(self) -> Iterator[tuple[GiProfile, int, int, Uses]]:
        """Yield what can be placed beside the standing instances: profile, start, size, and what it takes."""
        for profile in sorted(self._profiles.values(), key=lambda known: known.id):
            for start, size in sorted(profile.placements):
                uses = self._uses(profile, start, size)
                if all(self._left.get(name, 0) >= count for name, count in uses.items()):
                    yield profile, start, size, uses

    @cached_property
    def _left(self) -> dict[str, int]:
        if len(self._all) > MOST_COUNTERS:
            return {}
        left = Counter(self._all)
        for instance in self._standing:
            profile = self._profiles.get(instance.profile_id)
            span = (instance.start, instance.size)
            left.subtract(self._uses(profile, *span) if profile else _slices(*span))
        return dict(left)

    @cached_property
    def _all(self) -> dict[str, int]:
        """The counters of an empty GPU."""
        profiles = list(self._profiles.values())
        spans = sorted(span for profile in profiles for span in profile.placements)
        all_slices = {name: 1 for span in spans for name in _slices(*span)}
        all_slices[COMPUTE] = compute = max((profile.slices for profile in profiles), default=0)
        engines = {kind: _most(profiles, kind) for kind in (ONE, ALL)}
        if engines[ALL]:
            all_slices[ENGINES] = compute  # as many instances as there can be have a part of them
        if engines[ONE]:
            all_slices[MEDIA] = engines[ONE]
        limited = [
            profile
            for profile in profiles
            if profile.max_count < self._fit(profile, engines, compute)
        ]
        return {**all_slices, **{f"profile-{profile.id}": profile.max_count for profile in limited}}

    @staticmethod
    def _fit(profile: GiProfile, engines: Mapping[str, int], compute: int) -> int:
        """Return how many instances of a profile the other counters allow."""
        by_media = {ONE: engines[ONE], ALL: 1}.get(media(profile.name), compute)
        by_slices = compute // max(profile.slices, 1)
        return min(_disjoint(profile), by_media, by_slices)

    def _uses(self, profile: GiProfile, start: int, size: int) -> dict[str, int]:
        """Return what an instance of a profile takes at a place."""
        kind = media(profile.name)
        uses = _slices(start, size)
        uses[COMPUTE] = profile.slices
        if ENGINES in self._all and kind != NONE:
            uses[ENGINES] = self._all[ENGINES] if kind == ALL else 1
        if kind == ONE:
            uses[MEDIA] = 1
        if f"profile-{profile.id}" in self._all:
            uses[f"profile-{profile.id}"] = 1
        return uses


def _slices(start: int, size: int) -> dict[str, int]:
    return {f"memory-slice-{number}": 1 for number in range(start, start + size)}


def _disjoint(profile: GiProfile) -> int:
    """Return how many instances of a profile the memory slices have room for."""
    count, end = 0, -1
    for start, size in sorted(profile.placements):
        if start >= end:
            count, end = count + 1, start + size
    return count


def _most(profiles: Iterable[GiProfile], kind: str) -> int:
    """Return how many instances with so many media engines there can be."""
    return max(
        (profile.max_count for profile in profiles if media(profile.name) == kind), default=0
    )
