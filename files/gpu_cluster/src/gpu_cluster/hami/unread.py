# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Annotations and resources of HAMi's and NVIDIA's domains that nothing reads, such as misspelt ones. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

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
from .settings import Names

DOMAINS: Final = ("nvidia.com/", "hami.io/")
READ: Final = (
    *(USE_TYPE, AVOID_TYPE, USE_UUID, AVOID_UUID),
    *(NUMA, MODE, NODE_POLICY, GPU_POLICY, WEIGHTS),
)
# What HAMi itself writes on pods.
NOTES: Final = re.compile(r"hami\.io/(?:vgpu-.*|bind-.*|mutex\.lock)")
LABELS: Final = ("hami.io/webhook",)
LONGEST: Final = 100  # characters of a key, in a message
NVIDIA: Final = "nvidia.com/"
MOST_RESOURCES: Final = 32  # of a container that are looked at


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


def warn_of_unread_resources(
    container: Mapping[str, Any], where: str, names: Names
) -> Iterator[str]:
    """Yield a warning for each resource whose name is almost one of HAMi's, such as nvidia.com/cores.

    The count is left out, as device plugins have names such as nvidia.com/gpu.shared.
    """
    keys = {
        names.memory: "resourceMemoryName",
        names.percent: "resourceMemoryPercentageName",
        names.cores: "resourceCoreName",
        names.priority: "resourcePriorityName",
    }
    resources = container.get("resources") or {}
    seen = {*names.all}
    for part in ("limits", "requests"):
        for resource in islice(resources.get(part) or (), MOST_RESOURCES):
            if resource in seen or not resource.startswith(NVIDIA) or len(resource) > LONGEST:
                continue
            seen.add(resource)
            for nearest in difflib.get_close_matches(resource, keys, 1, 0.85):
                yield (
                    f"{where}.resources.{part}[{resource}] is not read, and the pod waits for a node that has it:"
                    f" write {nearest}, or set {keys[nearest]} to {resource} in HAMi's configuration"
                )
