# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a simulation found, as JSON and as a table. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_plugin._shared._base.dra.versions import text as shown
from gpu_plugin._shared._base.text.shown import printable
from gpu_plugin.cluster import quantity

from ..hami.template import NO_OTHER
from ..placement.values import Given
from .cluster_state import State
from .values import Node, Outcome

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
        return found | {
            "node": None,
            "reasons": [{"nodes": count, "text": text} for text, count in outcome.why],
        }
    return found | {
        "node": outcome.node,
        "devices": [_given(one, outcome) for one in outcome.given],
    }


def _given(given: Given, outcome: Outcome) -> Json:
    assert outcome.devices is not None
    device = outcome.devices.row[given.device]
    amounts = {name: quantity.text(amount) for name, amount in given.consumed}
    return {"request": given.request, "device": device.name, "driver": device.driver} | (
        {"consumed": amounts} if amounts else {}
    )


def _node(node: Node) -> Json:
    used = {
        node.devices.row[index].name: {
            name: quantity.text(amount) for name, amount in amounts.items()
        }
        for index, amounts in sorted(node.use.capacity.items())
    }
    busy = sorted(node.devices.row[index].name for index in node.use.busy)
    return {"name": node.name, "pods": node.pods, "allocated": busy, "shared": used}


def table(outcomes: Sequence[Outcome], warnings: Sequence[str], *, every: bool = False) -> str:
    """Return what people read: the pods, those of many by what they come from, and why some are pending."""
    running = sum(bool(one.node) for one in outcomes)
    listed = every or len(outcomes) <= MOST_LINES
    lines = [*(_listed(outcomes) if listed else _summed(outcomes)), ""]
    lines.append(f"{running} running, {len(outcomes) - running} pending{_other(outcomes)}")
    lines += _pending(outcomes)
    lines += [f"Not considered: {one}" for one in dict.fromkeys(warnings)]
    return "\n".join(map(printable, lines))


def _other(outcomes: Sequence[Outcome]) -> str:
    """Return how many the webhook would refuse only because shares are under mps."""
    count = sum(any(NO_OTHER in text for text, _nodes in one.why) for one in outcomes)
    return f", {count} of which need another enforcement of shares than mps" if count else ""


def _listed(outcomes: Sequence[Outcome]) -> Iterator[str]:
    rows = [("POD", "NODE", "DEVICES")]
    rows += [
        (one.pod.full_name, one.node or "<pending>", ", ".join(_devices(one))) for one in outcomes
    ]
    return _columns(rows)


def _devices(outcome: Outcome) -> Iterator[str]:
    for one in outcome.given:
        device = outcome.devices.row[one.device] if outcome.devices else None
        amounts = [
            f"{name} {quantity.text(amount)}" for name, amount in one.consumed if name != "shares"
        ]
        yield " ".join([device.name if device else "", *amounts])


def _summed(outcomes: Sequence[Outcome]) -> Iterator[str]:
    whole = Counter((one.pod.namespace, one.pod.owner) for one in outcomes)
    running = Counter((one.pod.namespace, one.pod.owner) for one in outcomes if one.node)
    rows = [("OWNER", "PODS", "RUNNING", "PENDING")]
    for key, count in whole.items():
        here = running[key]
        rows.append((f"{key[0]}/{key[1]}", str(count), str(here), str(count - here)))
    return _columns(rows)


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _pending(outcomes: Sequence[Outcome]) -> Iterator[str]:
    groups: Mapping[tuple[tuple[str, int], ...], list[str]] = {}
    groups = dict(groups)
    for one in outcomes:
        if not one.node:
            groups.setdefault(one.why, []).append(one.pod.full_name)
    for why, names in groups.items():
        yield ""
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"Pending: {', '.join(names[:3])}{more}"
        for text, count in why[:MOST_REASONS]:
            nodes = f"{count} node{'s' if count != 1 else ''}: " if count else ""
            yield f"  {nodes}{text}"
        if len(why) > MOST_REASONS:
            yield f"  and {len(why) - MOST_REASONS} other reasons (--json has all)"
