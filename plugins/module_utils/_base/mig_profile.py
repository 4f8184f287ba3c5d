# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG profiles by their names, ``[<C>c.]<G>g.<M>gb[+attribute...|-attribute...]``, and the instances of a layout."""

from __future__ import annotations

import functools
import math
import re
import typing as t

from .errors import InputError

PATTERN = re.compile(
    r"(?:(?P<c>[1-9][0-9]?)c\.)?(?P<g>[1-9][0-9]?)g\.(?P<gb>[1-9][0-9]{0,4})gb"
    r"(?P<attributes>(?:\+[a-zA-Z][\w.]*(?:,[a-zA-Z][\w.]*)*)|(?:-[a-zA-Z][\w.]*(?:,[a-zA-Z][\w.]*)*))?"
)
NUMBERS = {"+me": (7, 8), "+gfx": (10, 11, 12, 17), "-me": (13, 14), "+me.all": (15, 16)}
ATTRIBUTES = {number: name for name, numbers in NUMBERS.items() for number in numbers}
MOST_SLICES = 8
FORM = "a MIG profile such as 1g.10gb, 1g.10gb+me or 1c.3g.40gb"

Placements = t.Mapping[int, t.Tuple[int, ...]]  # where compute instances may begin, by slices


class Profile(t.NamedTuple):
    """A parsed name: compute slices, GPU slices, memory in GB, and the attributes as written."""

    c: int
    g: int
    gb: int
    attributes: str

    def __str__(self) -> str:
        prefix = "" if self.c == self.g else f"{self.c}c."
        return f"{prefix}{self.g}g.{self.gb}gb{self.attributes}"


def parse(name: t.Any, key: str = "profile") -> Profile:
    """Parse a name; ``key`` is the option that has it.

    Raises:
        InputError: if it is no name of a profile.
    """
    match = PATTERN.fullmatch(name.strip()) if isinstance(name, str) else None
    if match is None:
        raise InputError.of(key, name, FORM)
    g = int(match["g"])
    if g > MOST_SLICES:
        raise InputError.of(key, name, f"at most {MOST_SLICES} slices, as GPUs have")
    c = int(match["c"] or g)
    if c > g:
        raise InputError.of(key, name, f"at most {g} compute slices in {g}g")
    attributes = match["attributes"] or ""
    attributes = attributes[:1] + ",".join(sorted(set(attributes[1:].split(","))))
    return Profile(c, g, int(match["gb"]), attributes)


def canonical(name: str, key: str = "profile") -> str:
    """Return the canonical spelling of a profile; NVML's prefix ``MIG `` is dropped."""
    if isinstance(name, str) and name.startswith("MIG "):
        name = name[4:]
    return str(parse(name, key))


def name_from_sizes(slices: int, memory_mb: int, total_bytes: int, enum: int) -> str:
    """Return the name of a profile for drivers that don't report it: memory is rounded to eighths of the GPU."""
    total_gb = math.ceil(total_bytes / (1 << 30))
    fraction = math.ceil(8 * memory_mb * (1 << 20) / total_bytes) / 8
    memory_gb = math.floor(fraction * total_gb + 0.5)
    return f"{slices}g.{memory_gb}gb{ATTRIBUTES.get(enum, '')}"


class Shape(t.NamedTuple):
    """A GPU instance's profile, without a ``c`` part, and its compute instances, largest first."""

    profile: str
    cis: t.Tuple[int, ...]

    def __str__(self) -> str:
        if self.cis == (parse(self.profile).g,):
            return self.profile
        return f"{self.profile} ({' + '.join(f'{slices}c' for slices in self.cis)})"


def shapes(layout: t.Mapping[str, int], key: str = "mig-devices") -> t.Tuple[Shape, ...]:
    """Return the GPU instances of a layout, as mig-parted would make them.

    Compute instances that are smaller than their GPU instance share one as long as they fit.
    """
    results: t.List[Shape] = []
    parts: t.Dict[str, t.List[int]] = {}
    for name, count in sorted(layout.items()):
        profile = parse(name, key)
        whole = str(profile._replace(c=profile.g))
        if profile.c == profile.g:
            results += [Shape(whole, (profile.g,))] * count
        elif 2 * profile.c > profile.g + 1:
            raise InputError.of(key, name, f"a compute instance that a {profile.g}g can have")
        else:
            parts.setdefault(whole, []).extend([profile.c] * count)
    for whole, sizes in sorted(parts.items()):
        results += [Shape(whole, cis) for cis in _share(sizes, parse(whole).g)]
    return tuple(results)


def _share(sizes: t.Sequence[int], slices: int) -> t.List[t.Tuple[int, ...]]:
    """Fill one GPU instance after the other, largest compute instances first."""
    filled: t.List[t.Tuple[int, ...]] = []
    for size in sorted(sizes, reverse=True):
        if filled and _fit((*filled[-1], size), slices):
            filled[-1] = (*filled[-1], size)
        else:
            filled.append((size,))
    return filled


@functools.lru_cache(maxsize=1024)
def _fit(sizes: t.Tuple[int, ...], slices: int) -> bool:
    return spread(sizes, usual_placements(slices)) is not None


def usual_placements(slices: int) -> t.Dict[int, t.Tuple[int, ...]]:
    """Return where compute instances begin in a GPU instance of so many slices.

    NVML reports the same for every GPU so far, but only once the instance is there.
    """
    return {
        size: tuple(range(0, slices - size + 1, 1 << (size - 1).bit_length()))
        for size in range(1, slices + 1)
    }


def spread(
    sizes: t.Sequence[int], placements: Placements, taken: int = 0
) -> t.Optional[t.Tuple[t.Tuple[int, int], ...]]:
    """Return (slices, start) for compute instances beside the taken slices (a mask), or None."""
    if not sizes:
        return ()
    size = max(sizes)
    left = list(sizes)
    left.remove(size)
    for start in placements.get(size, ()):
        if not taken & mask(start, size):
            starts = spread(left, placements, taken | mask(start, size))
            if starts is not None:
                return ((size, start), *starts)
    return None


def mask(start: int, size: int) -> int:
    """Return a span of slices as bits."""
    return ((1 << size) - 1) << start
