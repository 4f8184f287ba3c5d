# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG's placement rules as the counters of a ResourceSlice, so that devices exclude each other as on the GPU. Pure.

A placement consumes each of its memory slices, its compute slices, and its part of the media engines. If the GPU allows
fewer instances of a profile than these counters do, the profile has a counter of its own.
``_mig/search`` applies the same rules to layouts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from .._shared._base.gpu import GiProfile, GpuInstance
from .._shared._mig.search import media

COMPUTE, ENGINES, MEDIA = "compute-slices", "media-engines", "media-extensions"
MAX_COUNTERS: Final = 32  # of a set in resource.k8s.io/v1
# The endings of profiles by their media engines, as search.media() returns them.
ALL_ENGINES, WITH_EXTENSIONS, NO_ENGINES = "+me.all", "+me", "-me"
Uses = Mapping[str, int]  # how much of each counter a placement consumes


class Grid:
    """The placements that are free on a GPU in MIG mode, and the counters that they consume.

    A GPU that needs more than MAX_COUNTERS counters has none, and no placements.

    Args:
        profiles: The profiles of the GPU.
        existing: Instances that stay, so that no placement may overlap them.
    """

    def __init__(self, profiles: Sequence[GiProfile], existing: Iterable[GpuInstance] = ()) -> None:
        self._profiles = {profile.id: profile for profile in profiles}
        self._existing = tuple(existing)

    @cached_property
    def counters(self) -> dict[str, int]:
        """The free amount of each counter that a placement consumes."""
        used = {name for _profile, _start, _size, uses in self.placements() for name in uses}
        return {name: amount for name, amount in self._free.items() if name in used}

    def placements(self) -> Iterator[tuple[GiProfile, int, int, Uses]]:
        """Yield the free placements: profile, first memory slice, number of them, and what it consumes."""
        for profile in sorted(self._profiles.values(), key=lambda profile: profile.id):
            for start, size in sorted(profile.placements):
                uses = self._uses(profile, start, size)
                if all(self._free.get(name, 0) >= count for name, count in uses.items()):
                    yield profile, start, size, uses

    @cached_property
    def _free(self) -> dict[str, int]:
        """The counters less what the existing instances consume."""
        if len(self._capacity) > MAX_COUNTERS:
            return {}
        free = Counter(self._capacity)
        for instance in self._existing:
            profile = self._profiles.get(instance.profile_id)
            span = (instance.start, instance.size)
            free.subtract(self._uses(profile, *span) if profile else _memory_slices(*span))
        return dict(free)

    @cached_property
    def _capacity(self) -> dict[str, int]:
        """The counters of an empty GPU."""
        profiles = list(self._profiles.values())
        spans = sorted(span for profile in profiles for span in profile.placements)
        counters = {name: 1 for span in spans for name in _memory_slices(*span)}
        counters[COMPUTE] = compute = max((profile.slices for profile in profiles), default=0)
        # How many instances the GPU allows of a profile with all media engines, and with extensions.
        most = dict.fromkeys((WITH_EXTENSIONS, ALL_ENGINES), 0)
        for profile in profiles:
            if (kind := media(profile.name)) in most:
                most[kind] = max(most[kind], profile.max_count)
        # A profile with all media engines excludes every instance that has a part of them, and there
        # can be at most as many of those as compute slices.
        if most[ALL_ENGINES]:
            counters[ENGINES] = compute
        if most[WITH_EXTENSIONS]:
            counters[MEDIA] = most[WITH_EXTENSIONS]
        own_counters = {
            f"profile-{profile.id}": profile.max_count
            for profile in profiles
            if profile.max_count < self._count_fitting(profile, most, compute)
        }
        return {**counters, **own_counters}

    @staticmethod
    def _count_fitting(profile: GiProfile, most: Mapping[str, int], compute: int) -> int:
        """Return how many instances of a profile the counters that it shares with others allow."""
        by_media = {WITH_EXTENSIONS: most[WITH_EXTENSIONS], ALL_ENGINES: 1}.get(
            media(profile.name), compute
        )
        by_slices = compute // max(profile.slices, 1)
        return min(_count_disjoint(profile), by_media, by_slices)

    def _uses(self, profile: GiProfile, start: int, size: int) -> dict[str, int]:
        """Return what an instance of a profile consumes at a placement."""
        kind = media(profile.name)
        uses = _memory_slices(start, size)
        uses[COMPUTE] = profile.slices
        if ENGINES in self._capacity and kind != NO_ENGINES:
            uses[ENGINES] = self._capacity[ENGINES] if kind == ALL_ENGINES else 1
        if kind == WITH_EXTENSIONS:
            uses[MEDIA] = 1
        if f"profile-{profile.id}" in self._capacity:
            uses[f"profile-{profile.id}"] = 1
        return uses


def _memory_slices(start: int, size: int) -> dict[str, int]:
    return {f"memory-slice-{number}": 1 for number in range(start, start + size)}


def _count_disjoint(profile: GiProfile) -> int:
    """Return how many placements of a profile fit beside each other."""
    count, end = 0, -1
    for start, size in sorted(profile.placements):
        if start >= end:
            count, end = count + 1, start + size
    return count
