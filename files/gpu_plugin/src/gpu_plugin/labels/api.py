# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Requests to the Kubernetes API for the node's own object, and the thread that watches it."""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .._shared._cluster.machine.api import GONE, MERGE, MISSING, ApiError, understood
from ..cluster import watch
from ..cluster.access import Access
from ..tools.chores import Backoff
from .owned import METADATA, METADATA_LIST, Change, NodeState

NODES: Final = "/api/v1/nodes"
NODE_RIGHTS: Final = "give the kubeconfig's user the right to get, list, watch and patch this node"

LONGEST_PAUSE: Final = 60.0  # between two tries to follow a node
JITTER: Final = 0.5
STILL_KNOWN: Final = (0, 429, 503)  # no answer, or an overloaded server: a watch may go on after it
NodeNews = NodeState | ApiError


@dataclass(frozen=True)
class Seen:
    """A node, and the version that a watch of it goes on from."""

    node: NodeState
    version: str


class NodeApi:
    """One node, through an access that others may share."""

    def __init__(self, access: Access, node: str) -> None:
        self._access, self._node = access, node
        self._ask = functools.partial(access.ask, rights=NODE_RIGHTS)
        self._query = {"fieldSelector": f"metadata.name={node}"}

    def close(self) -> None:
        """Close the connections."""
        self._access.close()

    def read(self) -> Seen:
        """Return the node.

        Raises:
            ApiError: if it can't be read, or does not exist.
        """
        doing = f"reading node {self._node}"
        answer = self._ask(doing, "GET", NODES, query=self._query, accept=METADATA_LIST)
        items, version = understood(doing, lambda: (answer["items"] or [], answer["metadata"]))
        if not items:
            raise ApiError(
                doing,
                "there is no such node",
                status=MISSING,
                hint="name the node with --node-name, or let the kubelet register it",
            )
        return understood(doing, lambda: Seen(_state(items[0]), str(version["resourceVersion"])))

    def follow(self, since: str, seconds: int) -> Iterator[tuple[NodeState | None, str]]:
        """Yield the node, None if it has not changed, and the version to go on from; first that it is followed.

        Raises:
            ApiError: if the watch ends by an error, or the node was deleted.
        """
        doing = f"watching node {self._node}"
        where, query = (self._access, doing, NODES, since, seconds), self._query
        events = watch.events(*where, query=query, accept=METADATA, rights=NODE_RIGHTS)
        for kind, node, version in events:
            if kind == watch.DELETED:
                raise ApiError(doing, "the node was deleted", status=MISSING)
            state = functools.partial(_state, node)
            yield understood(doing, state) if kind in watch.CHANGED else None, version

    def write(self, change: Change) -> NodeState:
        """Change the node and return it as it is then.

        Raises:
            ApiError: if the API can't be asked, or refuses.
        """
        doing = f"labelling node {self._node}"
        query, path = {"fieldManager": "gpu-node-labels"}, f"{NODES}/{self._node}"
        node: NodeState = self._ask(
            doing, "PATCH", path, change.body, query=query, kind=MERGE, accept=METADATA, look=_state
        )
        return node


class NodeWatch(threading.Thread):
    """Reports the node's state, and each failure, through all that can happen to a connection.

    One LIST, and then watches, each from where the one before ended.
    """

    def __init__(
        self, api: NodeApi, report: Callable[[NodeNews], None], pause: float = 1.0
    ) -> None:
        super().__init__(name="node", daemon=True)
        self._api, self._report = api, report
        self._backoff = Backoff(pause, LONGEST_PAUSE, JITTER)
        self._stopping = threading.Event()
        self._last: NodeState | None = None
        self._failing = False

    def run(self) -> None:
        watch.follow(
            self._list, self._watch, self._failed, self._stopping, self._backoff, STILL_KNOWN
        )

    def stop(self) -> None:
        """Ask for the end; a request under way is not waited for."""
        self._stopping.set()

    def _list(self) -> str:
        seen = self._api.read()
        self._report_node(seen.node)
        return seen.version

    def _watch(self, since: str) -> Iterator[str]:
        for node, version in self._api.follow(since, random.randint(*watch.SECONDS)):
            self._report_node(node or (self._last if self._failing else None))
            if node:
                self._backoff.reset()
            yield version

    def _failed(self, error: ApiError) -> None:
        """Report a failure, unless the server has only forgotten the past."""
        if error.status != GONE:
            self._failing = True
            self._report(error)

    def _report_node(self, state: NodeState | None) -> None:
        """Report the node; most changes are the kubelet's, and not of labels."""
        if state is not None and (state != self._last or self._failing):
            self._last, self._failing = state, False
            self._report(state)


def _state(node: Mapping[str, Any]) -> NodeState:
    meta = node["metadata"]
    labels, annotations = dict(meta.get("labels") or {}), dict(meta.get("annotations") or {})
    return NodeState(labels, annotations, str(meta.get("uid", "")))
