# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The commands that a person is told, by the family of the distribution."""

from __future__ import annotations

import typing as t

UNHOLD = {"rhel": "dnf versionlock delete", "suse": "zypper removelock"}
PURGE = {"rhel": "dnf remove", "suse": "zypper remove"}


def unhold(family: str, names: t.Iterable[str]) -> str:
    """Return the command that releases packages."""
    return " ".join([UNHOLD.get(family, "apt-mark unhold"), *names])


def purge(family: str, names: t.Iterable[str]) -> str:
    """Return the command that removes packages."""
    return " ".join([PURGE.get(family, "apt-get purge"), *names])
