# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What may be the key and the value of a label. Pure."""

from __future__ import annotations

import re
from typing import Final

from .._shared._core.errors import InputError

LONGEST: Final = 63
STRANGE: Final = re.compile(r"[^A-Za-z0-9\-_. \t\n]")
EDGES: Final = "-_."
NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
LONGEST_PREFIX: Final = 253


def value(text: str, suffix: str = "") -> str:
    """Return a text as a label's value: what is not allowed goes, blanks become dashes.

    Where it is too long its end goes, but for ``suffix``, which is a valid value itself.
    """
    plain = re.sub(r"\s+", "-", STRANGE.sub("", text).strip()).lstrip(EDGES)
    if not suffix:
        return plain[:LONGEST].rstrip(EDGES)
    kept = plain[: LONGEST - len(suffix) - 1].rstrip(EDGES)
    return f"{kept}-{suffix}" if kept else suffix


def checked(where: str, key: str, text: str) -> tuple[str, str]:
    """Return a label as it is. InputError: Kubernetes would refuse it."""
    prefix, slash, name = key.rpartition("/")
    good = NAME.fullmatch(name) is not None
    if slash:
        good = good and len(prefix) <= LONGEST_PREFIX and PREFIX.fullmatch(prefix) is not None
    if not good:
        raise InputError.of(where, key, "a label's key, such as example.com/name")
    if prefix in ("kubernetes.io", "k8s.io") or prefix.endswith((".kubernetes.io", ".k8s.io")):
        raise InputError.of(
            where, key, "a key that a node may set: none of kubernetes.io or k8s.io"
        )
    if text and not NAME.fullmatch(text):
        raise InputError.of(
            f"{where}: {key}", text, f"up to {LONGEST} letters, digits, dashes, dots, underscores"
        )
    return key, text
