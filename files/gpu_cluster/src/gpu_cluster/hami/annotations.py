# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The annotations of a pod under HAMi's names, and others of these domains that nothing reads. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_plugin._shared._base.dra.names import HAMI_CORE, MIG, MPS

from .errors import refused

USE_TYPE, AVOID_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_UUID, AVOID_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
NUMA, MODE = "nvidia.com/numa-bind", "nvidia.com/vgpu-mode"
NODE_POLICY, GPU_POLICY = "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"
WEIGHTS: Final = "hami.io/device-scoring-weights"
MODES: Final = (HAMI_CORE, MPS, MIG)
MOST_WORDS, LONGEST_WORD = 32, 64  # an attribute has at most 64 characters
PUNCTUATION: Final = "-_.:/+()"  # of products' names and UUIDs
WORD: Final = re.compile(rf"[A-Za-z0-9 {re.escape(PUNCTUATION)}]{{1,{LONGEST_WORD}}}")
TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")
POLICIES: Final = ("binpack", "spread", "topology-aware", "mutex", "numa")
BINPACK, MUTEX = "binpack", "mutex"
DOMAINS: Final = ("nvidia.com/", "hami.io/")
READ: Final = (
    *(USE_TYPE, AVOID_TYPE, USE_UUID, AVOID_UUID),
    *(NUMA, MODE, NODE_POLICY, GPU_POLICY, WEIGHTS),
)
# What HAMi itself writes on pods.
NOTES: Final = re.compile(r"hami\.io/(?:vgpu-.*|bind-.*|mutex\.lock)")
LABELS: Final = ("hami.io/webhook",)
LONGEST_KEY: Final = 100  # characters, in a message


@dataclass(frozen=True)
class Annotations:
    """The GPUs that suit a pod. ``modes`` are some of MODES, none for any; ``mutex`` is HAMi's policy."""

    use_types: tuple[str, ...] = ()
    avoid_types: tuple[str, ...] = ()
    use_uuids: tuple[str, ...] = ()
    avoid_uuids: tuple[str, ...] = ()
    numa: bool = False
    modes: tuple[str, ...] = ()
    mutex: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def only(self) -> str:
        """The mode if there is exactly one, else empty."""
        return self.modes[0] if len(self.modes) == 1 else ""

    def takes(self, mode: str) -> bool:
        """Return whether devices of a mode suit."""
        return not self.modes or mode in self.modes


def read(annotations: Mapping[str, Any]) -> Annotations:
    """Return the GPUs that annotations ask for.

    Raises:
        Refused: if a value is not valid.
    """
    policies = _some_of(annotations, GPU_POLICY, POLICIES)
    numa = _text(annotations, NUMA)
    if numa and numa not in TRUE + FALSE:
        raise refused(field(NUMA), numa, "it is neither true nor false")
    return Annotations(
        _listed(annotations, USE_TYPE),
        _listed(annotations, AVOID_TYPE),
        _listed(annotations, USE_UUID),
        _listed(annotations, AVOID_UUID),
        numa in TRUE,
        _some_of(annotations, MODE, MODES),
        MUTEX in policies,
        tuple(_warnings(annotations, policies)),
    )


def field(key: str) -> str:
    """Return the name of an annotation in messages."""
    return f"metadata.annotations[{key}]"


def warn_of_unread(keys: Iterable[str], resources: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each annotation that nothing reads, such as a misspelt one.

    Args:
        keys: The pod's annotations.
        resources: The names of HAMi's resources.
    """
    names = tuple(resources)
    for key in keys:
        if not key.startswith(DOMAINS) or key in READ or NOTES.fullmatch(key):
            continue
        at = field(key[:LONGEST_KEY])
        if key in names:
            yield f"{at} is not read: write it in resources.limits of the container"
        elif key in LABELS:
            yield f"{at} is not read: it is a label, for metadata.labels"
        elif nearest := difflib.get_close_matches(key[:LONGEST_KEY], [*READ, *names], 1, 0.8):
            yield f"{at} is not read; did you mean {nearest[0]}?"
        else:
            yield f"{at} is not read"


def _text(annotations: Mapping[str, Any], key: str) -> str:
    value = annotations.get(key)
    return value.strip() if isinstance(value, str) else ""


def _listed(annotations: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the words of a list with commas, none if there is no annotation."""
    parts = [word.strip() for word in _text(annotations, key).split(",")]
    names = tuple(dict.fromkeys(filter(None, parts)))
    if len(names) > MOST_WORDS:
        raise refused(field(key), _text(annotations, key), f"it has more than {MOST_WORDS} words")
    if odd := next((word for word in names if not WORD.fullmatch(word)), ""):
        expected = f"expected up to {LONGEST_WORD} letters, digits, spaces and any of {PUNCTUATION}"
        raise refused(field(key), odd, expected)
    return names


def _some_of(annotations: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    names = _listed(annotations, key)
    if unknown := [word for word in names if word not in allowed]:
        raise refused(field(key), unknown[0], f"expected some of {', '.join(allowed)}")
    return names


def _warnings(annotations: Mapping[str, Any], policies: tuple[str, ...]) -> Iterator[str]:
    """Yield warnings of what has no effect; a share's GPU is the first in which it fits, which is binpack."""
    for policy in policies:
        if policy not in (BINPACK, MUTEX):
            hint = f"; {NUMA} puts the GPUs of a container on one NUMA node"
            yield (
                f"{field(GPU_POLICY)}: {policy} is not done, as kube-scheduler takes the first GPU that fits"
                f"{hint if policy == 'numa' else ''}"
            )
    if text := _text(annotations, NODE_POLICY):
        yield f"{field(NODE_POLICY)}: {text[:LONGEST_WORD]} is not done, as kube-scheduler does not score claims"
    if _text(annotations, WEIGHTS):
        yield f"{field(WEIGHTS)} is not done, as kube-scheduler does not score GPUs"
