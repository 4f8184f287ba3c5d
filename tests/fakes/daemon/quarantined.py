# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What gpu.node.quarantine leaves on a node, in the step in which it does."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import (
    OPERATOR,
    PATH,
    Quarantine,
    Quarantined,
    dump,
)

ENTRY = Quarantined(OPERATOR, "XID 79 twice", "OPS-1", 1_800_000_000.0)
WHY = "in quarantine since 2027-01-15T08:00:00Z by an operator: XID 79 twice (ticket OPS-1)"


def path(root: Path) -> Path:
    return root / PATH.lstrip("/")


def set_aside(root: Path, *uuids: str, node: bool = False) -> None:
    """Have these GPUs, or the node, in quarantine, and nothing else."""
    found = Quarantine(dict.fromkeys(uuids, ENTRY), ENTRY if node else None)
    if found == Quarantine():
        path(root).unlink()
    else:
        put(root, dump(found))


def put(root: Path, text: str) -> None:
    """Put a text in the file's place."""
    path(root).parent.mkdir(parents=True, exist_ok=True)
    new = path(root).with_suffix(".new")
    new.write_text(text)
    os.replace(new, path(root))
