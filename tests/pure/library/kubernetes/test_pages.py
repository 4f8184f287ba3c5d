# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Lists that modules ask the API server for."""

from __future__ import annotations

from types import SimpleNamespace

from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.api import (
    Json,
    Request,
    TooLong,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.client import KubernetesApi

NODES = [f"node-{number}" for number in range(450)]
MOST = 100  # nodes in an answer, above which it is too long


def answer(doing: str, request: Request) -> Json:
    """Answer to a list of nodes."""
    query = request.query or {}
    first, limit = int(query.get("continue", 0)), int(query["limit"])
    if limit > MOST:
        raise TooLong(doing, "the answer is longer than 8 MiB")
    names = NODES[first : first + limit]
    last = first + limit >= len(NODES)
    return {
        "metadata": {} if last else {"continue": str(first + limit)},
        "items": [{"metadata": {"name": name}} for name in names],
    }


def test_nodes_are_listed_whole_if_one_answer_is_too_long() -> None:
    api = KubernetesApi.__new__(KubernetesApi)
    api._connection = SimpleNamespace(ask=answer)  # type: ignore[assignment]
    assert api.nodes() == NODES
