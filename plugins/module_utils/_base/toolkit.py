# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The versions of the NVIDIA container toolkit that are safe to use."""

from __future__ import annotations

import re
import typing as t

Version = t.Tuple[int, ...]

# Before it, containers could break out through the hooks (CVE-2024-0132, CVE-2025-23266) and through
# a race between a check and its use (CVE-2026-24260, fixed in 1.19.1).
MINIMUM: Version = (1, 19, 1)
MINIMUM_TEXT = ".".join(map(str, MINIMUM))
NUMBER = re.compile(r"\bv?(\d{1,9})\.(\d{1,9})\.(\d{1,9})([~-](?:0\.\d{1,9}\.)?rc)?")


def number(text: str) -> t.Optional[Version]:
    """Return the version in a package's version or in a program's output, None if there is none.

    A release candidate counts as older than its release.
    """
    match = NUMBER.search(text)
    if match is None:
        return None
    parts = tuple(int(part) for part in match.groups()[:3])
    return (*parts, -1) if match[4] else parts


def is_safe(text: str) -> bool:
    """Return whether the version in a text has the known fixes."""
    version = number(text)
    # 1.19.1 of a release candidate is (1, 19, 1, -1), and must not count as more than (1, 19, 1).
    return version is not None and (*version, 0)[:4] >= (*MINIMUM, 0)


def described(text: str) -> str:
    """Return the version in a program's output as text."""
    match = NUMBER.search(text)
    return match[0].lstrip("v") if match else "unknown"
