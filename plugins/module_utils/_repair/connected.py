# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs NVLink bridges connect, straight or through others."""

from __future__ import annotations

import typing as t


def peers(
    gpu: str, links: t.Mapping[str, t.Optional[t.Collection[str]]]
) -> t.Optional[t.Tuple[str, ...]]:
    """Return the GPUs that one is connected with, None where that is not known.

    ``links`` has of each GPU with which others it has links. A link has two ends, so that one GPU that does not tell,
    None, is known by what the others say. Of two such it is not known whether they have links with each other, nor
    what is connected with one of them.
    """
    if gpu not in links:
        return None
    edges: t.Dict[str, t.Set[str]] = {}
    for one, found in links.items():
        for other in found or ():
            edges.setdefault(one, set()).add(other)
            edges.setdefault(other, set()).add(one)
    reached, left = {gpu}, [gpu]
    while left:
        new = edges.get(left.pop(), set()) - reached
        reached |= new
        left += sorted(new)
    silent = {one for one, found in links.items() if found is None}
    return None if len(silent) > 1 and silent & reached else tuple(sorted(reached - {gpu}))
