# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The names of resources: what may be one, and which hardware gets which. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ._shared._core.errors import NodeError

VENDOR: Final = "nvidia.com"
GPU_RESOURCE: Final = f"{VENDOR}/gpu"
LONGEST: Final = 63
LABEL: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
SUBDOMAIN: Final = re.compile(rf"{LABEL}(\.{LABEL})*")


@dataclass(frozen=True)
class Rule:
    """Hardware whose product name or MIG profile looks like ``pattern`` is offered as ``name``."""

    pattern: str
    name: str

    def matches(self, text: str) -> bool:
        """Tell whether a text looks like the pattern as a whole; a star is any text."""
        parts = (re.escape(part) for part in self.pattern.split("*"))
        return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None


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
            f"{name!r} is not valid", cause=f"{full} has more than {LONGEST} characters"
        )
    if not SUBDOMAIN.fullmatch(full.partition("/")[2]):
        raise NodeError(
            f"{name!r} is not valid",
            cause=f"expected a name of {VENDOR}: lower-case letters, digits, dashes and dots",
        )
    return full


def resource_name(profile: str) -> str:
    """Return the resource of a MIG profile: 1g.10gb+me becomes nvidia.com/mig-1g.10gb.me."""
    return f"{VENDOR}/mig-{profile.replace('+', '.')}"


def named(rules: Iterable[Rule], text: str) -> str:
    """Return the name that the first rule which matches gives; an empty one where none does."""
    return next((rule.name for rule in rules if rule.matches(text)), "")
