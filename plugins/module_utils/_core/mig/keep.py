# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which compute instances of a GPU instance stay when it takes on another shape."""

from __future__ import annotations

import collections
import functools
import itertools
import typing as t

from ..gpu import GpuInstance
from .profile import parse
from .shapes import Places, Shape, mask, spread, usual_places


class Kept(t.NamedTuple):
    """A GPU instance that stays: what it is to become, and which compute instances stay in it."""

    instance: GpuInstance
    shape: Shape
    cis: t.FrozenSet[int]
    create: t.Tuple[t.Tuple[int, int], ...]

    @property
    def doomed(self) -> t.Tuple[int, ...]:
        """Return the ids of the compute instances that have to go."""
        return tuple(one.id for one in self.instance.cis if one.id not in self.cis)


def keep(
    instance: GpuInstance,
    shape: Shape,
    busy: t.Collection[t.Tuple[int, int]],
    places: t.Optional[Places] = None,
) -> Kept:
    """Return how to keep the busy compute instances first, and then the most of the others.

    ``busy`` holds ids of (GPU instance, compute instance); ``places`` is what NVML tells of this
    GPU instance, and the usual ones stand in for it.
    """
    known = places or usual_places(parse(shape.profile).g)

    def worth(chosen: t.Tuple[t.Any, ...]) -> t.Tuple[int, int]:
        return sum((instance.id, one.id) in busy for one in chosen), len(chosen)

    subsets = itertools.chain.from_iterable(
        itertools.combinations(instance.cis, size) for size in range(len(instance.cis), -1, -1)
    )
    for chosen in sorted(subsets, key=worth, reverse=True):
        missing = collections.Counter(shape.cis)
        missing.subtract(one.slices for one in chosen)
        if min(missing.values(), default=0) < 0:
            continue
        taken = functools.reduce(lambda bits, one: bits | mask(one.start, one.slices), chosen, 0)
        create = spread(list(missing.elements()), known, taken)
        if create is not None:
            return Kept(instance, shape, frozenset(one.id for one in chosen), create)
    # NVML's places do not hold the shape at all: creating it will fail, and say so.
    return Kept(instance, shape, frozenset(), tuple((size, 0) for size in shape.cis))


def match(
    instances: t.Sequence[GpuInstance],
    wanted: t.Sequence[Shape],
    busy: t.Collection[t.Tuple[int, int]],
    places: t.Mapping[int, Places],
) -> t.Tuple[Kept, ...]:
    """Give each GPU instance one of the shapes of its profile, so that most compute instances stay.

    There are at least as many shapes as instances, all of one profile.
    """
    if len(set(wanted)) == 1:
        return tuple(keep(one, wanted[0], busy, places.get(one.id)) for one in instances)
    pairs = {
        (one.id, shape): keep(one, shape, busy, places.get(one.id))
        for one in instances
        for shape in set(wanted)
    }

    def worth(order: t.Tuple[Shape, ...]) -> t.Tuple[int, int, int]:
        chosen = [pairs[one.id, order[at]] for at, one in enumerate(instances)]
        held = sum((one.instance.id, ci) in busy for one in chosen for ci in one.cis)
        changes = sum(len(one.create) + len(one.doomed) for one in chosen)
        return held, -changes, sum(len(one.cis) for one in chosen)

    best = max(set(itertools.permutations(wanted, len(instances))), key=lambda o: (worth(o), o))
    return tuple(pairs[one.id, best[at]] for at, one in enumerate(instances))
