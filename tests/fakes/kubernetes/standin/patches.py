# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Patches of the three kinds that clients send."""

from __future__ import annotations

import copy
from typing import Any

Json = dict[str, Any]
KEYS = {"conditions": "type", "containers": "name", "taints": "key"}  # of lists that are merged


class Untrue(Exception):
    """A test within a patch that does not hold."""


def merged(value: Any, patch: Any) -> Any:
    """Return a value after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), part)
    return found


def strategic(value: Any, patch: Any, name: str = "") -> Any:
    """Return a value after a strategic merge patch, which goes by keys in some lists."""
    if isinstance(patch, list) and name in KEYS:
        return _by_key(value or [], patch, KEYS[name])
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            found.pop(key, None)
        else:
            found[key] = strategic(found.get(key), part, key)
    return found


def _by_key(value: list[Json], patch: list[Json], key: str) -> list[Json]:
    there = {one[key]: one for one in value}
    new = []
    for one in patch:
        if one.get("$patch") == "delete":
            there.pop(one[key], None)
        elif one[key] in there:
            there[one[key]] = strategic(there[one[key]], one)
        else:
            new.append(one)
    return [*new, *there.values()]


def applied(value: Any, patch: list[Json]) -> Any:
    """Return a value after a JSON patch (RFC 6902) of add, replace, remove and test. Untrue, LookupError."""
    whole = {"": copy.deepcopy(value)}
    for one in patch:
        *way, last = (word.replace("~1", "/").replace("~0", "~") for word in one["path"].split("/"))
        at: Any = whole
        for word in way:
            at = at[int(word)] if isinstance(at, list) else at[word]
        place: Any = len(at) if last == "-" else int(last) if isinstance(at, list) else last
        if one["op"] == "test":
            if at[place] != one["value"]:
                raise Untrue(one["path"])
        elif one["op"] == "remove":
            del at[place]
        elif one["op"] == "add" and isinstance(at, list):
            at.insert(place, one["value"])
        else:
            if one["op"] == "replace":
                at[place]  # has to be there
            at[place] = one["value"]
    return whole[""]
