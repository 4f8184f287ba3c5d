# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a simulation found, as JSON and as a table. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gpu_plugin._shared._base.dra.versions import text as shown
from gpu_plugin._shared._base.text.shown import printable
from gpu_plugin.model.quantity import text

from ..hami.template import NO_OTHER
from .nodes import Node
from .scheduler import Outcome, State

MOST_LINES: Final = 60  # pods that are listed one by one
MOST_REASONS: Final = 5
Json = dict[str, Any]


def as_json(outcomes: Sequence[Outcome], state: State) -> Json:
    """Return everything: pods with nodes and devices or reasons, and what is in use of nodes."""
    return {
        "kubernetes": shown(state.version),
        "running": sum(bool(one.node) for one in outcomes),
        "pending": sum(not one.node for one in outcomes),
        "pods": [_pod(one) for one in outcomes],
        "nodes": [_node(one) for one in state.nodes],
        "warnings": list(state.warnings),
    }


def _pod(outcome: Outcome) -> Json:
    pod = outcome.pod
    found: Json = {"namespace": pod.namespace, "name": pod.name, "owner": pod.owner}
    if not outcome.node:
        reasons = [{"nodes": count, "text": said} for said, count in outcome.why]
        return found | {"node": None, "reasons": reasons}
    devices = []
    for one in outcome.given:
        device = outcome.devices.row[one.device]
        had = {"request": one.request, "device": device.name, "driver": device.driver}
        amounts = {name: text(amount) for name, amount in one.consumed}
        devices.append({**had, "consumed": amounts} if amounts else had)
    return found | {"node": outcome.node, "devices": devices}


def _node(node: Node) -> Json:
    row = node.devices.row
    return {
        "name": node.name,
        "pods": node.pods,
        "allocated": sorted(row[index].name for index in node.use.busy),
        "shared": {
            row[index].name: {name: text(amount) for name, amount in amounts.items()}
            for index, amounts in node.use.capacity.items()
        },
    }


def table(outcomes: Sequence[Outcome], warnings: Sequence[str], *, every: bool = False) -> str:
    """Return what people read: the pods, those of many by what they come from, and why some are pending."""
    rows = _listed(outcomes) if every or len(outcomes) <= MOST_LINES else _summed(outcomes)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    running = sum(bool(one.node) for one in outcomes)
    other = sum(any(NO_OTHER in said for said, _nodes in one.why) for one in outcomes)
    more = f", {other} of which need another enforcement of shares than mps" if other else ""
    lines += ["", f"{running} running, {len(outcomes) - running} pending{more}"]
    lines += _pending(outcomes)
    lines += [f"Not considered: {one}" for one in dict.fromkeys(warnings)]
    return "\n".join(map(printable, lines))


def _listed(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("POD", "NODE", "DEVICES")]
    for one in outcomes:
        devices = (
            [one.devices.row[of.device].name]
            + [f"{name} {text(amount)}" for name, amount in of.consumed if name != "shares"]
            for of in one.given
        )
        rows.append((one.pod.full_name, one.node or "<pending>", ", ".join(map(" ".join, devices))))
    return rows


def _summed(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    whole = Counter(f"{one.pod.namespace}/{one.pod.owner}" for one in outcomes)
    here = Counter(f"{one.pod.namespace}/{one.pod.owner}" for one in outcomes if one.node)
    counts = [(name, number, here[name], number - here[name]) for name, number in whole.items()]
    return [("OWNER", "PODS", "RUNNING", "PENDING"), *(tuple(map(str, one)) for one in counts)]


def _pending(outcomes: Sequence[Outcome]) -> Iterator[str]:
    groups: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for one in outcomes:
        if not one.node:
            groups.setdefault(one.why, []).append(one.pod.full_name)
    for why, names in groups.items():
        yield ""
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"Pending: {', '.join(names[:3])}{more}"
        for said, count in why[:MOST_REASONS]:
            nodes = f"{count} node{'s' if count != 1 else ''}: " if count else ""
            yield f"  {nodes}{said}"
        if len(why) > MOST_REASONS:
            yield f"  and {len(why) - MOST_REASONS} other reasons (--json has all)"
