# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pods that the webhook may change, as matchConditions of its configuration (CEL, Kubernetes 1.36). Pure.

API servers ask about no others, so that these do not wait for a webhook.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .cel import quoted
from .settings import Names, Settings

CONTAINERS: Final = (
    "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
)
PREFIXES: Final = ("nvidia.com/", "hami.io/")  # of the annotations that are heeded


def expression(settings: Settings) -> str:
    """Return of which pods a claim may be made, or another scheduler's.

    A count alone asks for whole GPUs, which nodes have under Kubernetes' own name: only annotations
    make a claim of it, or another name.
    """
    names = settings.names
    if names.count != Names.count:
        asks = _asks(names.all)
    else:
        asks = f"{_asks(names.all[1:])} || ({_annotated()} && {_asks((names.count,))})"
    scheduler = f"object.spec.schedulerName == {quoted(settings.scheduler)}"
    return f"{asks} || (has(object.spec.schedulerName) && {scheduler})"


def _asks(names: Iterable[str]) -> str:
    parts = (f"c.resources.{part}" for part in ("limits", "requests"))
    words = ", ".join(map(quoted, names))
    found = " || ".join(f"(has({one}) && {one}.exists(k, k in [{words}]))" for one in parts)
    return f"{CONTAINERS}.exists(c, has(c.resources) && ({found}))"


def _annotated() -> str:
    found = " || ".join(f"k.startsWith({quoted(one)})" for one in PREFIXES)
    there = "object.metadata.annotations"
    return f"has({there}) && {there}.exists(k, {found})"
