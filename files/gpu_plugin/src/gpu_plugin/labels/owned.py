# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node's labels: which are ours, and what has to change for them to be right. Pure.

An annotation of the node lists the keys that we wrote. What it does not list is somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .._shared._base.text.labels import LONGEST

STRANGE: Final = re.compile(r"[^A-Za-z0-9\-_. \t\n]")
EDGES: Final = "-_."
# What is asked for of an object: its metadata alone. A node's status is large, and changes all the time.
PARTIAL: Final = "application/json;as={};g=meta.k8s.io;v=v1,application/json"
METADATA: Final = PARTIAL.format("PartialObjectMetadata")
METADATA_LIST: Final = PARTIAL.format("PartialObjectMetadataList")
OURS: Final = "gpu.node/labels"
REFUSED: Final = "gpu.node/device-plugin.config-refused"
MIG_REASON: Final = "gpu.node/mig.config-reason"
QUARANTINED: Final = "gpu.node/quarantined-gpus"
NFD: Final = "nfd.node.kubernetes.io/feature-labels"


def value(text: str, suffix: str = "") -> str:
    """Return a text as a label's value: characters that are not allowed are dropped, blanks become dashes.

    If it is too long its end is dropped, but for ``suffix``, which is a valid value itself.
    """
    plain = re.sub(r"\s+", "-", STRANGE.sub("", text).strip()).lstrip(EDGES)
    if not suffix:
        return plain[:LONGEST].rstrip(EDGES)
    shortened = plain[: LONGEST - len(suffix) - 1].rstrip(EDGES)
    return f"{shortened}-{suffix}" if shortened else suffix


@dataclass(frozen=True)
class NodeState:
    """A node's labels and annotations, as far as they matter here; ``uid`` is another after a registration."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""

    @property
    def ours(self) -> frozenset[str]:
        """Return the keys that we wrote."""
        return _keys(self.annotations.get(OURS))


@dataclass(frozen=True)
class Change:
    """The keys to write, of which None removes one. ``left`` are labels that NFD keeps and we don't touch."""

    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    left: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.labels or self.annotations)

    @property
    def body(self) -> dict[str, Any]:
        """Return the change as a JSON merge patch of the node."""
        parts = {"labels": self.labels, "annotations": self.annotations}
        return {"metadata": {name: dict(part) for name, part in parts.items() if part}}


def change(
    node: NodeState,
    desired: Mapping[str, str],
    refused: str = "",
    mig_reason: str = "",
    quarantined: str = "",
) -> Change:
    """Return what changes a node's labels to the desired ones.

    Args:
        node: The node as it is.
        desired: The labels that it should have of ours.
        refused: Why the configuration that its label names is not used.
        mig_reason: Why the MIG layout that its label names is not there.
        quarantined: What is in quarantine, and why.
    """
    theirs = _keys(node.annotations.get(NFD)) - node.ours
    left = tuple(sorted(theirs & desired.keys()))
    mine = {key: text for key, text in desired.items() if key not in theirs}
    labels: dict[str, str | None] = {
        key: text for key, text in sorted(mine.items()) if node.labels.get(key) != text
    }
    labels |= dict.fromkeys(sorted(node.ours & node.labels.keys() - mine.keys()))
    notes = {OURS: ",".join(sorted(mine)), REFUSED: refused, MIG_REASON: mig_reason}
    notes[QUARANTINED] = quarantined
    changed_notes = {
        key: text for key, text in notes.items() if node.annotations.get(key, "") != text
    }
    return Change(labels, {key: text or None for key, text in changed_notes.items()}, left)


def _keys(text: str | None) -> frozenset[str]:
    return frozenset(part.strip() for part in (text or "").split(",") if part.strip())
