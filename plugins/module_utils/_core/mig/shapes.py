# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPU instances as they are wanted: a profile, and how its compute slices are shared out."""

from __future__ import annotations

import functools
import typing as t

from ..errors import InputError
from .profile import parse

Places = t.Mapping[int, t.Tuple[int, ...]]


class Shape(t.NamedTuple):
    """A GPU instance's profile, without a ``c`` part, and its compute instances, largest first."""

    profile: str
    cis: t.Tuple[int, ...]

    def __str__(self) -> str:
        if self.cis == (parse(self.profile).g,):
            return self.profile
        return f"{self.profile} ({' + '.join(f'{one}c' for one in self.cis)})"


def shapes(layout: t.Mapping[str, int], key: str = "mig-devices") -> t.Tuple[Shape, ...]:
    """Return the GPU instances that a layout comes to, as mig-parted would make them.

    Compute instances that are smaller than their GPU instance share one as long as they fit.
    """
    found: t.List[Shape] = []
    parts: t.Dict[str, t.List[int]] = {}
    for name, count in sorted(layout.items()):
        profile = parse(name, key)
        whole = str(profile._replace(c=profile.g))
        if profile.c == profile.g:
            found += [Shape(whole, (profile.g,))] * count
        elif 2 * profile.c > profile.g + 1:
            raise InputError.of(key, name, f"a compute instance that a {profile.g}g can have")
        else:
            parts.setdefault(whole, []).extend([profile.c] * count)
    for whole, sizes in sorted(parts.items()):
        found += [Shape(whole, one) for one in _share(sizes, parse(whole).g)]
    return tuple(found)


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
    return spread(sizes, usual_places(slices)) is not None


def usual_places(slices: int) -> t.Dict[int, t.Tuple[int, ...]]:
    """Return where compute instances begin in a GPU instance of so many slices.

    That is what NVML reports of every GPU so far; it can be asked only once the instance is there.
    """
    return {
        size: tuple(range(0, slices - size + 1, 1 << (size - 1).bit_length()))
        for size in range(1, slices + 1)
    }


def spread(
    sizes: t.Sequence[int], places: Places, taken: int = 0
) -> t.Optional[t.Tuple[t.Tuple[int, int], ...]]:
    """Return (slices, start) for compute instances beside the taken slices (a mask), or None."""
    if not sizes:
        return ()
    size = max(sizes)
    rest = list(sizes)
    rest.remove(size)
    for start in places.get(size, ()):
        if not taken & mask(start, size):
            found = spread(rest, places, taken | mask(start, size))
            if found is not None:
                return ((size, start), *found)
    return None


def mask(start: int, size: int) -> int:
    """Return a span of slices as bits."""
    return ((1 << size) - 1) << start
