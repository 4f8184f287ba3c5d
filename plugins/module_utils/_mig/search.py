# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The search for places of instances on a GPU's memory grid: keep the most, then place the others."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import typing as t

from .._base.errors import NodeError
from .._base.gpu import GiProfile, GpuInstance
from .._base.mig_profile import Placements, Shape, mask, parse, spread, usual_placements

NO_ARRANGEMENT = "no arrangement on its memory grid holds all of them at once"
Busy = t.Collection[t.Tuple[int, int]]
T = t.TypeVar("T")


class KeptInstance(t.NamedTuple):
    """A GPU instance that stays: its new shape, and the compute instances that stay and are created in it."""

    instance: GpuInstance
    shape: Shape
    cis: t.FrozenSet[int]
    create: t.Tuple[t.Tuple[int, int], ...]

    @property
    def doomed(self) -> t.Tuple[int, ...]:
        """Return the ids of the compute instances to destroy."""
        return tuple(ci.id for ci in self.instance.cis if ci.id not in self.cis)

    @property
    def changes(self) -> int:
        """Return how many compute instances are created and destroyed."""
        return len(self.create) + len(self.doomed)


class Arrangement(t.NamedTuple):
    """The instances that stay where they are, and the placements of those to create."""

    keep: t.Tuple[KeptInstance, ...]
    create: t.Tuple[t.Tuple[GiProfile, int, Shape], ...]


def arrange(
    profiles: t.Sequence[GiProfile],
    existing: t.Sequence[GpuInstance],
    desired: t.Sequence[Shape],
    busy: Busy = (),
    placements: t.Optional[t.Mapping[int, Placements]] = None,
) -> Arrangement:
    """Return the arrangement that disturbs the fewest busy instances, and then the fewest at all.

    Args:
        profiles: The GPU's profiles.
        existing: The instances that may stay.
        desired: The layout.
        busy: Ids of (GPU instance, compute instance) in use.
        placements: Where compute instances may begin in each GPU instance, by its id.

    Raises:
        NodeError: if the layout does not fit on the GPU.
    """
    layout = collections.Counter(instance.profile for instance in desired)
    _check(profiles, layout)
    names = {profile.id: profile.name for profile in profiles}
    held = {gi for gi, _ci in busy}

    def weight(keep: t.Tuple[GpuInstance, ...]) -> t.Tuple[int, int]:
        return sum(instance.id in held for instance in keep), len(keep)

    def stays(arrangement: Arrangement) -> t.Tuple[int, int]:
        cis = [(gi.instance.id, ci) for gi in arrangement.keep for ci in gi.cis]
        return sum(ids in busy for ids in cis), -sum(gi.changes for gi in arrangement.keep)

    candidates = [instance for instance in existing if names.get(instance.profile_id) in layout]
    fits = False  # on an empty GPU; computed once an instance that stays is in the way
    subsets = sorted(_subsets(candidates), key=weight, reverse=True)
    for _weight, alike in itertools.groupby(subsets, key=weight):
        arrangements: t.List[Arrangement] = []
        for keep in alike:
            free = _complete(profiles, keep, layout)
            if free is not None:
                arrangements.append(_assign(names, keep, free, desired, busy, placements or {}))
                if not any(instance.changes for instance in arrangements[-1].keep):
                    break
            elif not fits and _complete(profiles, (), layout) is None:
                raise _too_much(layout, NO_ARRANGEMENT)
            else:
                fits = True
        if arrangements:
            return max(arrangements, key=stays)
    raise _too_much(layout, NO_ARRANGEMENT)


def _subsets(values: t.Sequence[T]) -> t.Iterator[t.Tuple[T, ...]]:
    sizes = range(len(values), -1, -1)
    return itertools.chain.from_iterable(itertools.combinations(values, size) for size in sizes)


def _taken(spans: t.Iterable[t.Tuple[int, int]]) -> int:
    return functools.reduce(operator.or_, (mask(*span) for span in spans), 0)


def _assign(
    names: t.Mapping[int, str],
    keep: t.Sequence[GpuInstance],
    free: t.Sequence[t.Tuple[GiProfile, int]],
    desired: t.Sequence[Shape],
    busy: Busy,
    placements: t.Mapping[int, Placements],
) -> Arrangement:
    """Assign shapes to the instances that stay, and the other shapes to the free placements."""
    left = list(desired)
    staying: t.List[KeptInstance] = []
    for name in sorted({names[instance.profile_id] for instance in keep}):
        alike = [instance for instance in keep if names[instance.profile_id] == name]
        candidates = [shape for shape in left if shape.profile == name]
        for kept_instance in match(alike, candidates, busy, placements):
            staying.append(kept_instance)
            left.remove(kept_instance.shape)
    create = []
    for profile, start in free:
        shape = next(shape for shape in left if shape.profile == profile.name)
        left.remove(shape)
        create.append((profile, start, shape))
    staying.sort(key=lambda kept_instance: kept_instance.instance.start)
    return Arrangement(tuple(staying), tuple(create))


def room(profile: GiProfile) -> int:
    """Return how many instances of one profile an empty GPU holds."""
    count, end = 0, -1
    for start, size in sorted(profile.placements):
        if start >= end:
            count, end = count + 1, start + size
    return min(count, profile.max_count)


def _check(profiles: t.Sequence[GiProfile], layout: t.Mapping[str, int]) -> None:
    """Refuse profiles that the GPU does not offer, and more instances, slices or media engines than it has.

    NVML reports only how often each profile fits by itself. Profiles with +me share the same engines, and +me.all takes
    all of them, so that only profiles with -me fit beside it.
    """
    by_name = {profile.name: profile for profile in profiles}
    for name in layout:
        if name not in by_name:
            cause = f"it has {', '.join(sorted(by_name)) or 'none'}"
            raise NodeError(f"the GPU does not have the profile {name}", cause=cause)
    for name, count in layout.items():
        if count > by_name[name].max_count:
            raise _too_much({name: count}, f"at most {by_name[name].max_count} do", "do")
    slices = sum(by_name[name].slices * count for name, count in layout.items())
    most = max((profile.slices for profile in profiles), default=0)
    if slices > most:
        raise _too_much(layout, f"it takes {slices} of {most} slices")
    engines = {name: media(name) for name in by_name}
    for kind in ("+me", "+me.all"):
        counts = (profile.max_count for profile in profiles if engines[profile.name] == kind)
        most = max(counts, default=0)
        desired = {name: count for name, count in layout.items() if engines[name] == kind}
        if sum(desired.values()) > most:
            raise _too_much(desired, f"its media engines serve {most} instance with {kind}", "do")
    greedy = [name for name in layout if engines[name] == "+me.all"]
    beside = [name for name in layout if engines[name] not in ("+me.all", "-me")]
    if greedy and beside:
        cause = f"{greedy[0]} takes all media engines and leaves none for {', '.join(beside)}"
        raise _too_much(layout, cause)


def media(name: str) -> str:
    """Return a profile's attribute for media engines: +me, +me.all, -me, or an empty text for the usual ones."""
    attributes = parse(name).attributes
    names = attributes[1:].split(",")
    return next((attributes[0] + word for word in ("me", "me.all") if word in names), "")


def _too_much(layout: t.Mapping[str, int], cause: str, verb: str = "does") -> NodeError:
    named = ", ".join(f"{count} x {name}" for name, count in sorted(layout.items()))
    return NodeError(f"{named} {verb} not fit on the GPU", cause=cause)


def _complete(
    profiles: t.Sequence[GiProfile], keep: t.Sequence[GpuInstance], layout: t.Mapping[str, int]
) -> t.Optional[t.Tuple[t.Tuple[GiProfile, int], ...]]:
    """Return placements for the instances to create beside those that stay, None if they don't fit."""
    counts = collections.Counter(instance.profile_id for instance in keep)
    todo: t.List[GiProfile] = []
    for profile in profiles:
        left = layout.get(profile.name, 0) - counts[profile.id]
        if left < 0:
            return None
        todo += [profile] * left
    sizes = {profile.id: [size for _at, size in profile.placements] for profile in todo}
    todo.sort(key=lambda profile: (-max(sizes[profile.id], default=0), profile.id))
    spans = [span for profile in profiles for span in profile.placements]
    return _place(todo, _taken((instance.start, instance.size) for instance in keep), spans, set())


def _place(
    todo: t.Sequence[GiProfile],
    taken: int,
    spans: t.Sequence[t.Tuple[int, int]],
    dead: t.Set[t.Tuple[int, int]],
) -> t.Optional[t.Tuple[t.Tuple[GiProfile, int], ...]]:
    """Place instances, each where it leaves most room for others; ``dead`` has the states that led nowhere."""
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
        placed = _place(todo[1:], taken | mask(start, size), free, dead)
        if placed is not None:
            return ((todo[0], start), *placed)
    dead.add((len(todo), taken))
    return None


def keep(
    instance: GpuInstance, shape: Shape, busy: Busy, placements: t.Optional[Placements] = None
) -> KeptInstance:
    """Return how to keep the busy compute instances first, and then as many others as possible.

    ``busy`` holds ids of (GPU instance, compute instance); ``placements`` are those that NVML reports for this GPU
    instance, by default the usual ones.
    """
    known = placements or usual_placements(parse(shape.profile).g)

    def worth(chosen: t.Tuple[t.Any, ...]) -> t.Tuple[int, int]:
        return sum((instance.id, ci.id) in busy for ci in chosen), len(chosen)

    for chosen in sorted(_subsets(instance.cis), key=worth, reverse=True):
        missing = collections.Counter(shape.cis)
        missing.subtract(ci.slices for ci in chosen)
        if min(missing.values(), default=0) < 0:
            continue
        taken = _taken((ci.start, ci.slices) for ci in chosen)
        create = spread(list(missing.elements()), known, taken)
        if create is not None:
            return KeptInstance(instance, shape, frozenset(ci.id for ci in chosen), create)
    # NVML's placements do not hold the shape at all: its creation will fail with an error.
    return KeptInstance(instance, shape, frozenset(), tuple((size, 0) for size in shape.cis))


def match(
    instances: t.Sequence[GpuInstance],
    shapes: t.Sequence[Shape],
    busy: Busy,
    placements: t.Mapping[int, Placements],
) -> t.Tuple[KeptInstance, ...]:
    """Assign each GPU instance one of the shapes of its profile, so that most compute instances stay.

    There are at least as many shapes as instances, all of one profile.
    """
    pairs = {
        (instance.id, shape): keep(instance, shape, busy, placements.get(instance.id))
        for instance in instances
        for shape in set(shapes)
    }
    if len(set(shapes)) == 1:
        return tuple(pairs.values())

    def in_order(order: t.Tuple[Shape, ...]) -> t.Tuple[KeptInstance, ...]:
        return tuple(pairs[instance.id, order[at]] for at, instance in enumerate(instances))

    def worth(order: t.Tuple[Shape, ...]) -> t.Tuple[int, int, int]:
        chosen = in_order(order)
        held = sum((keeper.instance.id, ci) in busy for keeper in chosen for ci in keeper.cis)
        changes = sum(keeper.changes for keeper in chosen)
        return held, -changes, sum(len(keeper.cis) for keeper in chosen)

    orders = set(itertools.permutations(shapes, len(instances)))
    return in_order(max(orders, key=lambda order: (worth(order), order)))
