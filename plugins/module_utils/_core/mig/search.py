# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where instances go on a GPU's memory grid: keep the most, then place the rest."""

from __future__ import annotations

import collections
import functools
import itertools
import typing as t

from ..errors import NodeError
from ..gpu import GiProfile, GpuInstance
from .profile import Placements, Shape, mask, parse, spread, usual_placements

Place = t.Tuple[GiProfile, int]
Busy = t.Collection[t.Tuple[int, int]]


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


class Found(t.NamedTuple):
    """The instances that stay where they are, and the placements for those to be created."""

    keep: t.Tuple[Kept, ...]
    create: t.Tuple[t.Tuple[GiProfile, int, Shape], ...]


def arrange(
    profiles: t.Sequence[GiProfile],
    existing: t.Sequence[GpuInstance],
    wanted: t.Sequence[Shape],
    busy: Busy = (),
    placements: t.Optional[t.Mapping[int, Placements]] = None,
) -> Found:
    """Return the arrangement that disturbs the fewest busy instances, and then the fewest at all.

    ``busy`` holds ids of (GPU instance, compute instance) in use, ``placements`` where compute
    instances may begin in each GPU instance. Raises NodeError when the layout fits in no way.
    """
    by_name = {one.name: one for one in profiles}
    names = {one.id: one.name for one in profiles}
    layout = collections.Counter(one.profile for one in wanted)
    for name in layout:
        if name not in by_name:
            raise NodeError(
                f"the GPU does not offer the profile {name}",
                cause=f"it offers {', '.join(sorted(by_name)) or 'none'}",
            )
    check_counts(by_name, layout)
    check_engines(by_name, layout)
    candidates = [one for one in existing if layout.get(names.get(one.profile_id, ""), 0)]
    held = {gi for gi, _ci in busy}
    fits = _complete(by_name, names, (), layout) is not None
    subsets = _subsets(candidates, held) if fits else []
    for _kept, alike in itertools.groupby(subsets, key=lambda keep: _weight(keep, held)):
        found: t.List[Found] = []
        for keep in alike:
            free = _complete(by_name, names, keep, layout)
            if free is not None:
                found.append(_assign(names, keep, free, wanted, busy, placements or {}))
                if not _touched(found[-1]):
                    break
        if found:
            return max(found, key=lambda one: _stays(one, busy))
    raise NodeError(
        f"{describe(layout)} does not fit on the GPU",
        cause="no arrangement on its memory grid holds all of them at once",
    )


def _weight(keep: t.Sequence[GpuInstance], held: t.Collection[int]) -> t.Tuple[int, int]:
    return sum(one.id in held for one in keep), len(keep)


def _stays(found: Found, busy: Busy) -> t.Tuple[int, int]:
    """Return how many busy compute instances stay, and how few others are changed."""
    kept = [(one.instance.id, ci) for one in found.keep for ci in one.cis]
    return sum(one in busy for one in kept), -_touched(found)


def _touched(found: Found) -> int:
    return sum(len(one.create) + len(one.doomed) for one in found.keep)


def _subsets(
    candidates: t.Sequence[GpuInstance], held: t.Collection[int]
) -> t.List[t.Tuple[GpuInstance, ...]]:
    """Return what could be kept, best first: busy ones, then as many as can be."""
    subsets = [
        keep
        for size in range(len(candidates), -1, -1)
        for keep in itertools.combinations(candidates, size)
    ]
    return sorted(subsets, key=lambda keep: _weight(keep, held), reverse=True)


def _assign(
    names: t.Mapping[int, str],
    keep: t.Sequence[GpuInstance],
    free: t.Sequence[Place],
    wanted: t.Sequence[Shape],
    busy: Busy,
    placements: t.Mapping[int, Placements],
) -> Found:
    """Give the kept instances their shapes, and the free placements the rest of them."""
    left = list(wanted)
    kept: t.List[Kept] = []
    for name in sorted({names[one.profile_id] for one in keep}):
        same = [one for one in keep if names[one.profile_id] == name]
        for one in match(
            same, [shape for shape in left if shape.profile == name], busy, placements
        ):
            kept.append(one)
            left.remove(one.shape)
    create = []
    for profile, start in free:
        shape = next(one for one in left if one.profile == profile.name)
        left.remove(shape)
        create.append((profile, start, shape))
    return Found(tuple(sorted(kept, key=lambda one: one.instance.start)), tuple(create))


def room(profile: GiProfile) -> int:
    """Return how many instances of one profile an empty GPU holds."""
    count, end = 0, -1
    for start, size in sorted(profile.placements):
        if start >= end:
            count, end = count + 1, start + size
    return min(count, profile.max_count)


def check_counts(by_name: t.Mapping[str, GiProfile], layout: t.Mapping[str, int]) -> None:
    """Refuse more instances of a profile, or more slices, than the GPU has."""
    for name, count in layout.items():
        if count > by_name[name].max_count:
            raise NodeError(
                f"{count} x {name} do not fit on the GPU",
                cause=f"at most {by_name[name].max_count} do",
            )
    slices = sum(by_name[name].slices * count for name, count in layout.items())
    most = max((one.slices for one in by_name.values()), default=0)
    if slices > most:
        raise NodeError(
            f"{describe(layout)} does not fit on the GPU",
            cause=f"it takes {slices} of {most} slices",
        )


def check_engines(by_name: t.Mapping[str, GiProfile], layout: t.Mapping[str, int]) -> None:
    """Refuse to give the media engines to more instances than there are engines for.

    NVML tells only how often each profile fits by itself. Profiles with +me share the same engines,
    and one with +me.all leaves none, so that nothing but profiles with -me can be beside it.
    """
    engines = {name: _media(name) for name in by_name}
    for kind in ("+me", "+me.all"):
        most = max(
            (one.max_count for name, one in by_name.items() if engines[name] == kind), default=0
        )
        asked = {name: count for name, count in layout.items() if engines[name] == kind}
        if sum(asked.values()) > most:
            raise NodeError(
                f"{describe(asked)} do not fit on the GPU",
                cause=f"its media engines serve {most} instance with {kind}",
            )
    greedy = [name for name in layout if engines[name] == "+me.all"]
    beside = [name for name in layout if engines[name] not in ("+me.all", "-me")]
    if greedy and beside:
        raise NodeError(
            f"{describe(layout)} does not fit on the GPU",
            cause=f"{greedy[0]} takes all media engines and leaves none for {', '.join(beside)}",
        )


def _media(name: str) -> str:
    attributes = parse(name).attributes
    words = attributes[1:].split(",")
    return next((attributes[0] + word for word in ("me", "me.all") if word in words), "")


def describe(layout: t.Mapping[str, int]) -> str:
    """Return a layout as text."""
    return ", ".join(f"{count} x {name}" for name, count in sorted(layout.items())) or "no instance"


def _complete(
    by_name: t.Mapping[str, GiProfile],
    names: t.Mapping[int, str],
    keep: t.Sequence[GpuInstance],
    layout: t.Mapping[str, int],
) -> t.Optional[t.Tuple[Place, ...]]:
    """Return placements for what the kept instances leave to be created, or None."""
    left = dict(layout)
    taken = 0
    for one in keep:
        name = names[one.profile_id]
        left[name] -= 1
        if left[name] < 0:
            return None
        taken |= mask(one.start, one.size)
    todo = [by_name[name] for name, count in left.items() for _copy in range(count)]
    todo.sort(key=lambda one: (-max(size for _at, size in one.placements), one.id))
    spans = [span for one in by_name.values() for span in one.placements]
    return _place(todo, taken, spans, set())


def _place(
    todo: t.Sequence[GiProfile],
    taken: int,
    spans: t.Sequence[t.Tuple[int, int]],
    dead: t.Set[t.Tuple[int, int]],
) -> t.Optional[t.Tuple[Place, ...]]:
    """Place instances, each where most room is left for others; ``dead`` holds what came to nothing."""
    if not todo:
        return ()
    if (len(todo), taken) in dead:
        return None
    free = [span for span in spans if not taken & mask(*span)]

    def lost(place: t.Tuple[int, int]) -> int:
        here = mask(*place)
        return sum(size for start, size in free if here & mask(start, size))

    placements = [place for place in todo[0].placements if not taken & mask(*place)]
    for start, size in sorted(placements, key=lambda place: (lost(place), place)):
        found = _place(todo[1:], taken | mask(start, size), free, dead)
        if found is not None:
            return ((todo[0], start), *found)
    dead.add((len(todo), taken))
    return None


def keep(
    instance: GpuInstance,
    shape: Shape,
    busy: t.Collection[t.Tuple[int, int]],
    placements: t.Optional[Placements] = None,
) -> Kept:
    """Return how to keep the busy compute instances first, and then the most of the others.

    ``busy`` holds ids of (GPU instance, compute instance); ``placements`` is what NVML tells of this
    GPU instance, and the usual ones stand in for it.
    """
    known = placements or usual_placements(parse(shape.profile).g)

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
    # NVML's placements do not hold the shape at all: creating it will fail, and say so.
    return Kept(instance, shape, frozenset(), tuple((size, 0) for size in shape.cis))


def match(
    instances: t.Sequence[GpuInstance],
    wanted: t.Sequence[Shape],
    busy: t.Collection[t.Tuple[int, int]],
    placements: t.Mapping[int, Placements],
) -> t.Tuple[Kept, ...]:
    """Give each GPU instance one of the shapes of its profile, so that most compute instances stay.

    There are at least as many shapes as instances, all of one profile.
    """
    if len(set(wanted)) == 1:
        return tuple(keep(one, wanted[0], busy, placements.get(one.id)) for one in instances)
    pairs = {
        (one.id, shape): keep(one, shape, busy, placements.get(one.id))
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
