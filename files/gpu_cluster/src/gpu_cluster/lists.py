# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Lists that are read in parts, smaller ones where a part is too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from gpu_plugin.cluster.access import JSON, Access
from gpu_plugin.cluster.errors import TooLong, understood

# Without what objects are about, which is most of them: specification and status.
METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PAGE: Final = 200  # objects of a part
Json = Mapping[str, Any]


def parts(
    access: Access,
    doing: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    page: int = PAGE,
    accept: str = JSON,
    rights: str = "",
) -> Iterator[Json]:
    """Yield the answers that a list comes in. ApiError; TooLong: one object alone is."""
    more: dict[str, str] = {}
    while True:
        asked = {**(query or {}), **more, "limit": str(page)}
        try:
            found = access.ask(doing, "GET", path, query=asked, accept=accept, rights=rights)
        except TooLong:
            if page == 1:
                raise
            page //= 2
            continue
        yield found
        token = understood(doing, partial(_following, found))
        if not token:
            return
        more = {"continue": str(token)}


def _following(found: Json) -> Any:
    return (found.get("metadata") or {}).get("continue")


def items(access: Access, doing: str, path: str, **how: Any) -> Iterator[Json]:
    """Yield the objects of a list; ``how`` is as for parts()."""
    for part in parts(access, doing, path, **how):
        yield from understood(doing, partial(_items, part))


def _items(part: Json) -> list[Json]:
    return list(part["items"] or ())
