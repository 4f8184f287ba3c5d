# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""ConfigMaps (v1), or their data, that are given instead of the configuration in them. Pure."""

from __future__ import annotations

import re
import typing as t

FILE = re.compile(r".+\.(?:ya?ml|json)")
MOST_NAMED = 3


def unwrap_hint(data: t.Any) -> str:
    """Return the next step if data is a ConfigMap, or the data of one, and an empty text otherwise."""
    if not isinstance(data, t.Mapping):
        return ""
    if data.get("kind") == "ConfigMap":
        inner = data.get("data")
        keys = [str(key) for key in inner][:MOST_NAMED] if isinstance(inner, t.Mapping) else []
        key = f".{keys[0]}" if len(keys) == 1 else f", of {' or '.join(keys)}" if keys else ""
        return f"it is a ConfigMap: give the text below data{key}"
    texts = [isinstance(value, str) for value in data.values()]
    keys = [str(key) for key in data]
    if keys and all(texts) and all(map(FILE.fullmatch, keys)):
        return f"it is the data of a ConfigMap: give the text of {', '.join(keys[:MOST_NAMED])}"
    return ""
