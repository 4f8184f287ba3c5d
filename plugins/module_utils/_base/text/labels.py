# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Labels of a Kubernetes node, with the keys and values that the API server accepts from a node."""

from __future__ import annotations

import re
import typing as t

from ..errors import InputError

LONGEST = 63
LONGEST_PREFIX = 253
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
RESERVED = ("kubernetes.io", "k8s.io")


def check_label(where: str, key: str, value: t.Any) -> t.Tuple[str, str]:
    """Check a label and return it.

    Args:
        where: The option or variable that has the label, for the error.
        key: Its key, with or without a prefix, such as ``example.com/rack``.
        value: Its value.

    Raises:
        InputError: if the API server would refuse it, or the value is not a text.
    """
    prefix, slash, name = key.rpartition("/")
    is_prefix = not slash or (len(prefix) <= LONGEST_PREFIX and PREFIX.fullmatch(prefix))
    if not is_prefix or not NAME.fullmatch(name):
        raise InputError.of(where, key, "a label's key, such as example.com/name")
    if prefix in RESERVED or prefix.endswith(tuple(f".{domain}" for domain in RESERVED)):
        expected = "a key that a node may set: none of kubernetes.io or k8s.io"
        raise InputError.of(where, key, expected)
    if not isinstance(value, str):
        raise InputError.of(f"{where}: {key}", value, "a text, such as 'yes' or '12' in quotes")
    if value and not NAME.fullmatch(value):
        expected = f"up to {LONGEST} letters, digits, dashes, dots, underscores"
        raise InputError.of(f"{where}: {key}", value, expected)
    return key, value
