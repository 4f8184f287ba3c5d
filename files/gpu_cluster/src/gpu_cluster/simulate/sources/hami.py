# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods of HAMi's users, changed as the webhook would change them. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from ...hami import mutation, published, settings
from .pods import Mutate, Templates

Json = Mapping[str, Any]


def mutator(text: str, source: str, slices: Iterable[Json], warnings: list[str]) -> Mutate:
    """Return what changes pods, with HAMi's configuration where a text is given. ConfigError: it can't be used."""
    configured = settings.parse(text, source) if text else settings.Settings()
    there = published.of(slices)
    warnings.extend(configured.notes)

    def mutate(pod: Json, owner: str) -> tuple[Json, Templates]:
        found = mutation.mutate(pod, configured, there)
        warnings.extend(f"{owner}: {one}" for one in found.warnings)
        return patched(pod, found.patch), [
            (one.name, {"spec": one.spec}) for one in found.templates
        ]

    return mutate


def patched(manifest: Json, patch: Iterable[Mapping[str, Any]]) -> Json:
    """Return a manifest with the adds, removes and replaces of a JSON patch (RFC 6902) of our own."""
    changed = copy.deepcopy(dict(manifest))
    for step in patch:
        parents = [
            part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]
        ]
        place: Any = changed
        for part in parents[:-1]:
            place = place[int(part)] if isinstance(place, list) else place[part]
        _apply(place, parents[-1], step)
    return changed


def _apply(place: Any, key: str, step: Mapping[str, Any]) -> None:
    if step["op"] == "remove":
        del place[int(key) if isinstance(place, list) else key]
    elif isinstance(place, list):
        place.insert(len(place) if key == "-" else int(key), step["value"])
    else:
        place[key] = step["value"]
