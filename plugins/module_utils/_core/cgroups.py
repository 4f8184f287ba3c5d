# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where a process is among the node's cgroups, from /proc/<pid>/cgroup.

A user may have cgroups of his own, with any names below his slice; so may a container. So what a
path says is believed from its beginning on, where only root makes cgroups, and nowhere else.
"""

from __future__ import annotations

import typing as t

INIT = (
    "init.scope",
    "init",
)  # where systemd, and k3s in a container, keep the node's first process


def paths(cgroup: t.Optional[str], init: t.Optional[str] = None) -> t.List[str]:
    """Return a process's path in each hierarchy, below that of the node.

    ``init`` is the same text of the node's first process. Where the node is a container itself, its
    cgroups may be shown below the container's own.
    """
    roots = {hierarchy: _root(path) for hierarchy, path in _lines(init)}
    found = []
    for hierarchy, path in _lines(cgroup):
        root = roots.get(hierarchy, "")
        found.append(path[len(root) :] if path.startswith(f"{root}/") else path)
    return found


def _lines(text: t.Optional[str]) -> t.Iterator[t.Tuple[str, str]]:
    # The kernel allows no line end in the name of a cgroup.
    for line in (text or "").split("\n"):
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield parts[1], parts[2]


def _root(path: str) -> str:
    folder, _slash, name = path.rstrip("/").rpartition("/")
    return folder if name in INIT else path.rstrip("/")
