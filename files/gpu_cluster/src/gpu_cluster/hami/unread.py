# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Annotations of HAMi's and NVIDIA's domains that nothing reads, such as misspelt ones. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Final

from .annotations import (
    AVOID_TYPE,
    AVOID_UUID,
    GPU_POLICY,
    MODE,
    NODE_POLICY,
    NUMA,
    USE_TYPE,
    USE_UUID,
    WEIGHTS,
    field,
)

DOMAINS: Final = ("nvidia.com/", "hami.io/")
READ: Final = (
    *(USE_TYPE, AVOID_TYPE, USE_UUID, AVOID_UUID),
    *(NUMA, MODE, NODE_POLICY, GPU_POLICY, WEIGHTS),
)
# What HAMi itself writes on pods.
NOTES: Final = re.compile(r"hami\.io/(?:vgpu-.*|bind-.*|mutex\.lock)")
LABELS: Final = ("hami.io/webhook",)
LONGEST: Final = 100  # characters of a key, in a message


def warn_of_unread(keys: Iterable[str], resources: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each annotation that nothing reads.

    Args:
        keys: The pod's annotations.
        resources: The names of HAMi's resources.
    """
    names = tuple(resources)
    for key in keys:
        if not key.startswith(DOMAINS) or key in READ or NOTES.fullmatch(key):
            continue
        at = field(key[:LONGEST])
        if key in names:
            yield f"{at} is not read: write it in resources.limits of the container"
        elif key in LABELS:
            yield f"{at} is not read: it is a label, for metadata.labels"
        elif nearest := difflib.get_close_matches(key[:LONGEST], [*READ, *names], 1, 0.8):
            yield f"{at} is not read; did you mean {nearest[0]}?"
        else:
            yield f"{at} is not read"
