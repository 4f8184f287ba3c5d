# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a pod may be on a node at all: names, labels, taints. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .values import Node, Shape

Json = Mapping[str, Any]


def unsuitable(shape: Shape, node: Node) -> str:
    """Return why a pod may never be on a node, an empty text where it may."""
    if shape.node_name and shape.node_name != node.name:
        return f"it is not the node {shape.node_name}"
    for key, value in shape.node_selector.items():
        if node.labels.get(key) != value:
            return f"nodeSelector {key}={value} does not match"
    if shape.affinity is not None and not any(_term(one, node) for one in shape.affinity):
        return "its node affinity does not match"
    for taint in node.taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not _tolerated(
            taint, shape.tolerations
        ):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"the taint {taint.get('key')}{value}:{taint['effect']} is not tolerated"
    return ""


def _tolerated(taint: Json, tolerations: Sequence[Json]) -> bool:
    return any(
        (one.get("effect") or taint["effect"]) == taint["effect"]
        and (one.get("key") or taint.get("key")) == taint.get("key")
        and (
            one.get("operator") == "Exists"
            or (one.get("value") or "") == (taint.get("value") or "")
        )
        for one in tolerations
    )


def _term(term: Json, node: Node) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    named = {"metadata.name": node.name}
    return all(_matches(one, node.labels) for one in expressions) and all(
        _matches(one, named) for one in fields
    )


def _matches(requirement: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(str(requirement.get("key")))
    values = [str(one) for one in requirement.get("values") or ()]
    operator = requirement.get("operator")
    if operator in ("In", "NotIn"):
        return (value in values) is (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (operator == "Exists")
    try:
        number, other = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > other if operator == "Gt" else operator == "Lt" and number < other
