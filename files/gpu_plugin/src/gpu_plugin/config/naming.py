# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The names of resources: what may be one, and which hardware gets which. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .._shared._core.errors import NodeError
from .._shared._core.text.shown import cut, shown

VENDOR: Final = "nvidia.com"
GPU_RESOURCE: Final = f"{VENDOR}/gpu"
LONGEST: Final = 63
LONGEST_PATTERN: Final = 256  # NVML's names have 96 characters at most
LABEL: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
SUBDOMAIN: Final = re.compile(rf"{LABEL}(\.{LABEL})*")


@dataclass(frozen=True)
class Rule:
    """Hardware whose product name or MIG profile looks like ``pattern`` is advertised as ``name``."""

    pattern: str
    name: str

    def matches(self, text: str) -> bool:
        """Tell whether a text looks like the pattern as a whole; a star is any text."""
        first, *parts = self.pattern.split("*")
        if not parts:
            return text == first
        if not text.startswith(first):
            return False
        # The first place that fits leaves the most to what follows, so none is ever tried again.
        at = len(first)
        for part in parts[:-1]:
            at = text.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return text.endswith(parts[-1]) and at + len(parts[-1]) <= len(text)


@dataclass(frozen=True)
class Naming:
    """The user's rules, the first that matches counts. Without one the usual names hold."""

    gpus: tuple[Rule, ...] = ()
    mig: tuple[Rule, ...] = ()


def qualified(name: str) -> str:
    """Return a resource's full name. NodeError: it can't be one."""
    full = name if name.startswith(f"{VENDOR}/") else f"{VENDOR}/{name}"
    if len(full) > LONGEST:
        raise NodeError(
            f"{shown(name)} is not valid", cause=f"{cut(full)} has more than {LONGEST} characters"
        )
    if not SUBDOMAIN.fullmatch(full.partition("/")[2]):
        raise NodeError(
            f"{shown(name)} is not valid",
            cause=f"expected a name of {VENDOR}: lower-case letters, digits, dashes and dots",
        )
    return full


def resource_name(profile: str) -> str:
    """Return the resource of a MIG profile: 1g.10gb+me becomes nvidia.com/mig-1g.10gb.me."""
    return f"{VENDOR}/mig-{profile.replace('+', '.')}"


def named(rules: Iterable[Rule], text: str) -> str:
    """Return the name that the first rule which matches gives; an empty one where none does."""
    return next((rule.name for rule in rules if rule.matches(text)), "")
