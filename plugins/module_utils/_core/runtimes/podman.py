# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What podman needs for CDI: nothing but its version."""

from __future__ import annotations

import typing as t

from ..errors import InputError
from .common import CDI, Wanted

MINIMUM = (4, 1)
SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")


def check_mode(wanted: Wanted) -> None:
    """Refuse what podman gets on its command line instead."""
    if wanted.mode not in ("", CDI):
        raise InputError.of("mode", wanted.mode, "cdi for podman; --runtime names another runtime")


def warnings(wanted: Wanted) -> t.Tuple[str, ...]:
    """Name folders that podman does not look into by itself."""
    return tuple(
        f"podman reads no CDI specifications in {folder}. Next step: name it with --cdi-spec-dir"
        for folder in wanted.spec_dirs
        if folder not in SPEC_DIRS
    )
