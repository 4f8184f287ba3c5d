# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which nodes of a fleet may be repaired now: those in repair go on, and others begin as far as the limit has room.

The nodes themselves say who is in repair. Nothing is counted from what a run remembers.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.plugin_utils.controller import rollout

VARIABLE = "repair_max_unavailable"


class BudgetNode(t.NamedTuple):
    """What a node says: whether it answers, and whether it is out of service or in repair.

    ``counts`` is whether something was done for it of late, ``refused`` why nothing may be begun, and ``needed``
    whether there is anything to do.
    """

    answers: bool = True
    out: bool = False
    refused: str = ""
    needed: bool = False
    counts: bool = True


class Budget(t.NamedTuple):
    """The nodes that are repaired now, in the order of the inventory, and in words why others are not."""

    nodes: t.Tuple[str, ...]
    reasons: t.Tuple[str, ...]


def budget(nodes: t.Mapping[str, BudgetNode], limit: t.Union[int, str]) -> Budget:
    """Return which nodes may be repaired of a fleet, of which ``limit`` may be out of service at a time."""
    most = rollout.most(limit, len(nodes)) or 1
    out = [name for name, node in nodes.items() if (node.out and node.counts) or not node.answers]
    waiting = [
        name for name, node in nodes.items() if node.answers and node.out and not node.counts
    ]
    due = [
        name for name, node in nodes.items() if node.needed and node.answers and not node.refused
    ]
    begun = [name for name in due if nodes[name].out]
    new = [name for name in due if not nodes[name].out]
    room = max(0, most - len(out))
    chosen = {*begun, *new[:room]}
    reasons = [f"{name} does not answer" for name, node in nodes.items() if not node.answers]
    reasons += [
        f"{name} is not repaired now: {node.refused}"
        for name, node in nodes.items()
        if node.needed and node.answers and node.refused
    ]
    if waiting:
        reasons.append(
            f"{', '.join(waiting)}: in repair or out of service, with nothing done for longer than a run takes, and not"
            f" counted in {VARIABLE}. Next step: see what the repair waits for"
        )
    if new[room:]:
        reasons.append(
            f"{', '.join(new[room:])}: not repaired now, since {len(out)} of {len(nodes)} nodes are out of service or"
            f" in repair ({', '.join(out) or 'none'}) and {room} begin with this run: {VARIABLE} is {limit}. Next"
            " step: see to these first, or raise it"
        )
    return Budget(tuple(name for name in nodes if name in chosen), tuple(reasons))
