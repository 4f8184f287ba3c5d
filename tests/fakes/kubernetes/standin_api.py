# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The stand-in API server as one node sees it: with its kubelet's access, which is kept to the node's own objects."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from tests.fakes.kubernetes.standin.api import StandIn
from tests.fakes.kubernetes.standin.authorizers import kubelet
from tests.fakes.kubernetes.standin.patches import merged
from tests.fakes.kubernetes.standin.server import DROP

NODE = "node-1"
EVENTS = "/api/v1/namespaces/default/events"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SPACES = ("gpus", "gpu-node", "node-feature-discovery")
Json = dict[str, Any]


class Api(StandIn):
    """``node`` is the node's object, None where there is none."""

    def __init__(
        self, folder: Path, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(folder, host, tls)
        self.user = kubelet(NODE)
        labels = {"kubernetes.io/hostname": NODE}
        meta = {"name": NODE, "uid": "uid-1", "labels": labels}
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.add({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
        for name in SPACES:
            self.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    @property
    def node(self) -> Json | None:
        return self.nodes.get(NODE)

    @node.setter
    def node(self, found: Json | None) -> None:
        if found is None:
            del self.nodes[NODE]
        else:
            self.nodes[NODE] = found

    @property
    def features(self) -> dict[str, Json]:
        """The NodeFeature objects."""
        return {path: one for path, one in self.objects.items() if "/nodefeatures/" in path}

    @property
    def events(self) -> list[Json]:
        """The Events, the oldest first."""
        return [one for path, one in self.objects.items() if path.startswith(EVENTS)]

    def conditions(self) -> dict[str, Json]:
        """The node's conditions by type."""
        assert self.node is not None
        return {one["type"]: one for one in self.node["status"]["conditions"]}

    def set(self, kind: str = "labels", **values: str | None) -> None:
        """Change labels or annotations as somebody else would; in names, __ is a slash, _ a dot."""
        named = {key.replace("__", "/").replace("_", "."): text for key, text in values.items()}
        self.merge({"metadata": {kind: named}})

    def merge(self, patch: Json) -> None:
        """Apply a merge patch to the node."""
        with self.news:
            assert self.node is not None
            self.node = merged(self.node, patch)

    def own(self, kind: str = "labels") -> dict[str, str]:
        """The node's labels or annotations, without the one that it was born with."""
        with self.news:
            found = (self.node or {"metadata": {}})["metadata"].get(kind, {})
            return {key: text for key, text in found.items() if key != "kubernetes.io/hostname"}

    # --- slices ---

    def writes(self) -> list[tuple[str, str]]:
        """What was written of slices, by method and name."""
        return [
            (method, path.rpartition("/")[2])
            for method, path in self.requests
            if method in ("POST", "PUT", "DELETE") and path.startswith(SLICES)
        ]

    def wipe(self) -> None:
        """Delete all slices, as a kubelet does."""
        self.slices.clear()


__all__ = ["DROP", "EVENTS", "NODE", "Api"]
