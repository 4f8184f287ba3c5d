# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which files containerd reads, in which order, and where ours goes among them."""

from __future__ import annotations

import fnmatch
import posixpath
import typing as t

from .edits import Config
from .state import Version

MERGES = (2, 1)  # before it, a file that is imported replaces the whole section of a plugin
DROP_IN = "zz-gpu-node.toml"  # read last: what is read later wins
EARLIER_DROP_INS = ("99-gpu-node.toml", "99-gpu-node.conf")  # NVIDIA's 99-nvidia.toml won over them


def drop_in(config: t.Mapping[str, t.Any], version: Version) -> t.Optional[str]:
    """Return the file of ours that the configuration would import, where that is safe."""
    if version < MERGES:
        return None
    for pattern in _listed(config):
        folder, name = posixpath.split(pattern)
        if name == "*.toml" and folder.startswith("/") and "*" not in folder:
            return f"{folder}/{DROP_IN}"
    return None


def _listed(config: t.Mapping[str, t.Any]) -> t.List[str]:
    found = config.get("imports")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def patterns(config: t.Mapping[str, t.Any], path: str) -> t.List[str]:
    """Return what the file at a path imports: paths, and patterns of paths."""
    folder = posixpath.dirname(path)
    return [
        one if "*" in one else posixpath.normpath(posixpath.join(folder, one))
        for one in _listed(config)
    ]


def imported(config: t.Mapping[str, t.Any], path: str, names: t.Iterable[str]) -> t.List[str]:
    """Return the files that the file at a path imports, of those that are there, in containerd's order."""
    found: t.List[str] = []
    for pattern in patterns(config, path):
        many = "*" in pattern
        found += sorted(one for one in names if _matches(one, pattern)) if many else [pattern]
    return list(dict.fromkeys(found))


def _matches(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern)


def in_order(path: str, configs: t.Mapping[str, Config]) -> t.List[str]:
    """Return the files that containerd reads, the main one first, given what is in each of them."""
    order, pending = [], [path]
    while pending:
        name = pending.pop(0)
        if name in configs and name not in order:
            order.append(name)
            pending += imported(configs[name], name, configs)
    return order
