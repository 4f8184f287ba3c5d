# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names of MIG profiles: ``[<C>c.]<G>g.<M>gb[+attribute...|-attribute...]``."""

from __future__ import annotations

import math
import re
import typing as t

from ..errors import InputError

PATTERN = re.compile(
    r"(?:(?P<c>[1-9][0-9]?)c\.)?(?P<g>[1-9][0-9]?)g\.(?P<gb>[1-9][0-9]{0,4})gb"
    r"(?P<attributes>(?:\+[a-zA-Z][\w.]*(?:,[a-zA-Z][\w.]*)*)|(?:-[a-zA-Z][\w.]*(?:,[a-zA-Z][\w.]*)*))?"
)
ATTRIBUTES = {
    7: "+me",
    8: "+me",
    10: "+gfx",
    11: "+gfx",
    12: "+gfx",
    13: "-me",
    14: "-me",
    15: "+me.all",
    16: "+me.all",
    17: "+gfx",
}
MOST_SLICES = 8
FORM = "a MIG profile such as 1g.10gb, 1g.10gb+me or 1c.3g.40gb"


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
    """Parse a name; InputError names the key where it was found."""
    match = PATTERN.fullmatch(name.strip()) if isinstance(name, str) else None
    if match is None:
        raise InputError.of(key, name, FORM)
    g = int(match["g"])
    if g > MOST_SLICES:
        raise InputError.of(key, name, f"at most {MOST_SLICES} slices, as GPUs have")
    c = int(match["c"] or g)
    if c > g:
        raise InputError.of(key, name, f"at most {g} compute slices in {g}g")
    sign, listed = (match["attributes"] or " ")[0], (match["attributes"] or "")[1:]
    attributes = sign + ",".join(sorted(set(listed.split(",")))) if listed else ""
    return Profile(c, g, int(match["gb"]), attributes)


def canonical(name: str, key: str = "profile") -> str:
    """Return the one spelling of a profile; NVML's prefix ``MIG `` is dropped."""
    if isinstance(name, str) and name.startswith("MIG "):
        name = name[4:]
    return str(parse(name, key))


def name_from_sizes(slices: int, memory_mb: int, total_bytes: int, enum: int) -> str:
    """Return the name for drivers that do not tell it: memory is rounded to eighths of the GPU."""
    total_gb = math.ceil(total_bytes / (1 << 30))
    fraction = math.ceil(8 * memory_mb * (1 << 20) / total_bytes) / 8
    memory_gb = math.floor(fraction * total_gb + 0.5)
    return f"{slices}g.{memory_gb}gb{ATTRIBUTES.get(enum, '')}"
