# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The layouts that every GPU offers by itself: all-disabled, all-balanced and all-<profile>."""

from __future__ import annotations

import typing as t

from ..errors import InputError, NodeError
from ..gpu import GiProfile
from ..text.shown import cut
from .profile import parse
from .search import room

Layout = t.Dict[str, int]
# Instances by slices, for GPUs of so many slices.
BALANCED: t.Dict[int, t.Dict[int, int]] = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}

MOST_NAMES = 500  # characters of names to choose from
FORMS = "all-disabled, all-balanced or all-<profile>, such as all-1g.10gb"


def check_name(selected: str, known: t.Iterable[str] = ()) -> None:
    """Refuse what can't be a generated name; ``known`` are names that would have been good too."""
    names = ", ".join(filter(None, (cut(", ".join(sorted(known)), MOST_NAMES), FORMS)))
    if selected in ("all-disabled", "all-balanced"):
        return
    if not selected.startswith("all-"):
        raise InputError.of("selected", selected, names)
    try:
        profile = parse(selected[len("all-") :].replace("gb.", "gb+"))
    except InputError:
        raise InputError.of("selected", selected, names) from None
    if profile.c != profile.g:
        raise InputError.of(
            "selected", selected, "a profile without a c part: not supported by this release"
        )


def generated(selected: str, profiles: t.Sequence[GiProfile]) -> t.Optional[Layout]:
    """Return the layout of a generated name for a GPU with these profiles; None means MIG off."""
    if selected == "all-disabled":
        return None
    if selected == "all-balanced":
        return _balanced(profiles)
    name = selected[len("all-") :] if selected.startswith("all-") else ""
    for one in profiles:
        # mig-parted writes a point for the plus, since labels of Kubernetes cannot hold one.
        if name in (one.name, one.name.replace("+", ".")):
            return {one.name: room(one)}
    offered = sorted(f"all-{one.name}" for one in profiles)
    raise InputError.of(
        "selected", selected, f"one of: {', '.join(['all-disabled', 'all-balanced', *offered])}"
    )


def _balanced(profiles: t.Sequence[GiProfile]) -> Layout:
    plain: t.Dict[int, t.Tuple[int, str]] = {}
    for one in profiles:
        profile = parse(one.name)
        if not profile.attributes:
            # Of two profiles with as many slices, the one with less memory leaves room for others.
            plain[profile.g] = min(
                plain.get(profile.g, (profile.gb, one.name)), (profile.gb, one.name)
            )
    parts = BALANCED.get(max((one.slices for one in profiles), default=0), {})
    if not parts or not all(slices in plain for slices in parts):
        raise NodeError(
            "all-balanced is not defined for this GPU", hint="give the layout in config"
        )
    return {plain[slices][1]: count for slices, count in parts.items()}
