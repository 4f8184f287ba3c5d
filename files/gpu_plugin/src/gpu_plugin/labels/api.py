# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is asked of the Kubernetes API about the node's own object."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..cluster import watch
from ..cluster.access import Access
from ..cluster.errors import MISSING, ApiError, understood
from .owned import METADATA, METADATA_LIST, Change, NodeState

MERGE: Final = "application/merge-patch+json"
NODE_RIGHTS: Final = "give the kubeconfig's user the right to get, list, watch and patch this node"


@dataclass(frozen=True)
class Seen:
    """A node, and the version that a watch of it goes on from."""

    node: NodeState
    version: str


class NodeApi:
    """One node, through an access that others may share."""

    def __init__(self, access: Access, node: str) -> None:
        self._access, self._node = access, node
        self._path = f"/api/v1/nodes/{node}"

    def close(self) -> None:
        """Let go of the connections."""
        self._access.close()

    def read(self) -> Seen:
        """Return the node. ApiError."""
        doing = f"reading node {self._node}"
        found = self._access.ask(
            doing,
            "GET",
            "/api/v1/nodes",
            query=self._named(),
            accept=METADATA_LIST,
            rights=NODE_RIGHTS,
        )
        items, version = understood(doing, lambda: (found["items"] or [], found["metadata"]))
        if not items:
            raise ApiError(
                doing,
                "there is no such node",
                status=MISSING,
                hint="name the node with --node-name, or let the kubelet register it",
            )
        return understood(doing, lambda: Seen(_state(items[0]), str(version["resourceVersion"])))

    def follow(self, since: str, seconds: int) -> Iterator[tuple[NodeState | None, str]]:
        """Yield the node where it changed, and the version to go on from, first that it is followed. ApiError."""
        doing = f"watching node {self._node}"
        for kind, found, version in watch.events(
            self._access,
            doing,
            "/api/v1/nodes",
            since,
            seconds,
            query=self._named(),
            accept=METADATA,
            rights=NODE_RIGHTS,
        ):
            if kind == watch.DELETED:
                raise ApiError(doing, "the node was deleted", status=MISSING)
            state = functools.partial(_state, found)
            yield understood(doing, state) if kind in watch.CHANGED else None, version

    def write(self, change: Change) -> NodeState:
        """Change the node and return it as it is then. ApiError."""
        doing = f"labelling node {self._node}"
        query = {"fieldManager": "gpu-node-labels"}
        node: NodeState = self._access.ask(
            doing,
            "PATCH",
            self._path,
            change.body,
            query=query,
            kind=MERGE,
            accept=METADATA,
            rights=NODE_RIGHTS,
            look=_state,
        )
        return node

    def _named(self) -> dict[str, str]:
        return {"fieldSelector": f"metadata.name={self._node}"}


def _state(node: Mapping[str, Any]) -> NodeState:
    meta = node["metadata"]
    labels, annotations = dict(meta.get("labels") or {}), dict(meta.get("annotations") or {})
    return NodeState(labels, annotations, str(meta.get("uid", "")))
