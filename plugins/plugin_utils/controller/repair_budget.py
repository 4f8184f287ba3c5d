# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which nodes of a fleet may be repaired now: those in repair go on, and others begin as far as the limit has room.

The nodes themselves say who is in repair. Nothing is counted from what a run remembers.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.plugin_utils.controller import rollout

VARIABLE = "repair_max_unavailable"


class Node(t.NamedTuple):
    """What a node says: whether it answers, is out of service or in repair, why nothing may be begun, what is to do."""

    answers: bool = True
    out: bool = False
    refused: str = ""
    needed: bool = False


class Budget(t.NamedTuple):
    """The nodes that are repaired now, in the order of the inventory, and in words why others are not."""

    nodes: t.Tuple[str, ...]
    told: t.Tuple[str, ...]


def budget(nodes: t.Mapping[str, Node], limit: t.Union[int, str]) -> Budget:
    """Return which nodes may be repaired of a fleet, of which ``limit`` may be out of service at a time."""
    most = rollout.most(limit, len(nodes)) or 1
    out = [name for name, one in nodes.items() if one.out or not one.answers]
    wanted = [name for name, one in nodes.items() if one.needed and one.answers and not one.refused]
    begun = [name for name in wanted if nodes[name].out]
    new = [name for name in wanted if not nodes[name].out]
    room = max(0, most - len(out))
    chosen = {*begun, *new[:room]}
    told = [f"{name} does not answer" for name, one in nodes.items() if not one.answers]
    told += [
        f"{name} is not repaired now: {one.refused}"
        for name, one in nodes.items()
        if one.needed and one.answers and one.refused
    ]
    if new[room:]:
        told.append(
            f"{', '.join(new[room:])}: not repaired now, since {len(out)} of {len(nodes)} nodes are out of service or"
            f" in repair ({', '.join(out) or 'none'}) and {room} begin with this run: {VARIABLE} is {limit}. Next"
            " step: see to these first, or raise it"
        )
    return Budget(tuple(name for name in nodes if name in chosen), tuple(told))
