# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which of several configurations a node is to have, as NVIDIA's config-manager decides it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from .._shared._core.errors import InputError, NodeError

LABEL: Final = "nvidia.com/device-plugin.config"
NAMED, SINGLE, EMPTY = "named", "single", "empty"
FALLBACKS: Final = (NAMED, SINGLE, EMPTY)
DEFAULT_NAME: Final = "default"


class NoChoice(NodeError):
    """No configuration can be chosen."""


def fallbacks(where: str, text: str) -> tuple[str, ...]:
    """Return the strategies of a list with commas. InputError: one is unknown."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for one in found:
        if one not in FALLBACKS:
            raise InputError.of(where, one, f"one of {', '.join(FALLBACKS)}")
    return found


def choose(
    label: str, names: Collection[str], default: str, strategies: Sequence[str]
) -> str | None:
    """Return the name of the configuration; None is an empty one. NoChoice: there is none.

    The label's comes first, then the default, then what the strategies find, in their order.
    """
    known = ", ".join(sorted(names)) or "none"
    for name, whose in ((label, "the node's label"), (default, "the default")):
        if name and name in names:
            return name
        if name:
            raise NoChoice(
                f"there is no configuration {name!r}, which {whose} names",
                cause=f"there are {known}",
            )
    for one in strategies:
        if one == NAMED and DEFAULT_NAME in names:
            return DEFAULT_NAME
        if one == SINGLE and len(names) == 1:
            return next(iter(names))
        if one == EMPTY:
            return None
    raise NoChoice(
        "no configuration is chosen",
        cause=f"the node has no label for it, there is no default, and there are {known}",
        hint=f"label the node, or name one of them {DEFAULT_NAME!r}",
    )
