# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Several specifications of one kind on a node, which container runtimes merge device by device.

As CDI's cache does it: the folder that is read later wins for each device, and what two files of one folder have is
nobody's.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

from .._base.text import json_data
from .specification import KIND, describes_gpus

RANKS = {"/etc/cdi": 0, "/var/run/cdi": 1, "/run/cdi": 1}
YAML_NAME = re.compile(r"^[\s-]*name\s*:\s*[\"']?([^\"'\s#]+)", re.M)


def device_names(text: str) -> t.Set[str]:
    """Return the names of a specification's devices, as far as they can be read without a parser of YAML."""
    try:
        devices = json_data.loads(text).get("devices", ())
    except (ValueError, AttributeError):
        return set(YAML_NAME.findall(text))
    found = [one.get("name") for one in devices if isinstance(one, dict)]
    return {one for one in found if isinstance(one, str)}


def rivals(path: str, names: t.Sequence[str], others: t.Mapping[str, str]) -> t.List[str]:
    """Return which other files take devices away, by the texts of all others; ``names`` are ours."""
    found = (_rival(path, names, one, text) for one, text in others.items() if describes_gpus(text))
    return [one for one in found if one]


def _rival(path: str, names: t.Sequence[str], other: str, text: str) -> str:
    theirs, mine = (RANKS.get(posixpath.dirname(one), 2) for one in (other, path))
    known = device_names(text)
    if not known:
        return f"{other} describes {KIND} too, and its devices cannot be read. Next step: remove it"
    shared = [one for one in names if one in known]
    if not shared or theirs < mine:
        return ""
    which = f"{other} describes {', '.join(shared)} of {KIND} too"
    if theirs > mine:
        return f"{which}: runtimes take them from there, not from {path}. Next step: remove it"
    return (
        f"{which}: no container gets them, since both files are in one folder. Next step: remove it"
    )
