# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Free space on file systems, and a size that several parts need."""

from __future__ import annotations

import typing as t

# The environment is 147 MiB, 208 with its byte code, beside the archive that it is made from (36 MiB of wheels).
ENVIRONMENT = 300 << 20


class Space(t.NamedTuple):
    """The file system that a folder is in, or will be: its number, its free bytes, and whether it is read-only."""

    device: int
    free: int
    read_only: bool = False
