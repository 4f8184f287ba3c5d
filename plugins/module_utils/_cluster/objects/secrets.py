# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What of Kubernetes' objects is for nobody to read: what Secrets hold. Pure."""

from __future__ import annotations

import base64
import binascii
import typing as t

HIDDEN = "(hidden)"
HOLD = ("data", "stringData")
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # it has the data again
SHORTEST = 6  # characters: what is shorter is in many a text that has nothing to do with it


def hidden(value: t.Any, secret: bool = False) -> t.Any:
    """Return objects, in lists or not, without what Secrets among them hold; ``secret`` says that they are in one."""
    if isinstance(value, dict):
        secret = secret or _is_secret(value)
        found = {key: hidden(one, secret) for key, one in value.items()}
        for key in (one for one in (*HOLD, APPLIED) if secret and one in value):
            held = value[key]
            found[key] = dict.fromkeys(held, HIDDEN) if isinstance(held, dict) else HIDDEN
        return found
    return [hidden(one, secret) for one in value] if isinstance(value, list) else value


def values(value: t.Any, secret: bool = False) -> t.Set[str]:
    """Return the texts that Secrets hold, plain and in base64, but for short ones."""
    if isinstance(value, list):
        return set().union(*(values(one, secret) for one in value))
    if not isinstance(value, dict):
        return set()
    secret = secret or _is_secret(value)
    found = set()
    for key, one in value.items():
        if secret and key in HOLD and isinstance(one, dict):
            found |= {text for held in one.values() for text in _both(str(held), key)}
        else:
            found |= values(one, secret)
    return {one for one in found if len(one) >= SHORTEST}


def _is_secret(value: t.Mapping[str, t.Any]) -> bool:
    return str(value.get("kind")).startswith("Secret")  # or a SecretList


def _both(text: str, key: str) -> t.Iterator[str]:
    """Yield a text as it is, and as the other of the two keys has it."""
    yield text
    if key == "stringData":
        yield base64.b64encode(text.encode()).decode()
        return
    try:
        yield base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):  # no base64, or no text in it
        return
