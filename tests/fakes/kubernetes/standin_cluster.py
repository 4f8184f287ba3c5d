# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The stand-in API server as an administrator sees it: nodes, pods that come and end, and budgets."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from tests.fakes.kubernetes.standin.api import StandIn
from tests.fakes.kubernetes.standin.patches import merged
from tests.fakes.kubernetes.standin.server import DROP
from tests.fakes.kubernetes.standin.store import TIME
from tests.fakes.kubernetes.standin.verbs import managed

Json = dict[str, Any]


class Cluster(StandIn):
    """``budgets`` are names of budgets and how many evictions they allow, by the namespace/name of a pod.

    Pods in ``ends_after`` go on after they were told to end. ``removed`` are namespaces that end, ``fates`` the status
    of pods that are made, by the resource that they ask for. ``made`` are those pods, ``evictions`` what was asked
    for. A test changes ``pods`` at the moment at which they change.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.budgets: dict[str, tuple[str, int]] = {}
        self.ends_after: dict[str, float] = {}
        self.removed = _Removed(self)
        self.fates: dict[str, Json] = {}
        self.evictions: list[Json] = []
        self.made: list[Json] = []
        self._uids = itertools.count()
        self._space("default")
        self.kubeconfig.unlink()
        self.kubeconfig = folder / "admin.conf"
        self.write_kubeconfig(self.token)

    def _space(self, name: str) -> None:
        """Let there be a namespace with its account."""
        self.add(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name},
            },
        )

    # --- the scene ---

    def add_node(self, name: str, **spec: Any) -> None:
        """Add a node; one that is unschedulable was made so by kubectl."""
        meta = {"name": name, "annotations": {}, "managedFields": []}
        self.nodes[name] = {"metadata": meta, "spec": {}}
        if spec:
            self.patch_node(name, {"spec": spec}, "kubectl-cordon")

    def add_pod(
        self, name: str, node: str = "node-1", controller: str = "ReplicaSet", **more: Any
    ) -> Json:
        """Add a pod that runs; ``gpus`` counts what it asks for, ``spec`` and ``meta`` are merged in."""
        namespace, _slash, short = name.rpartition("/")
        namespace = namespace or "default"
        gpus = more.get("gpus", 0)
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        meta = {"namespace": namespace, "name": short, "uid": f"uid-{next(self._uids)}"}
        if controller:
            name = node if controller == "Node" else "x"
            one = {"apiVersion": "apps/v1", "kind": controller, "name": name, "uid": "uid-x"}
            meta["ownerReferences"] = [{**one, "controller": True}]
            if controller == "DaemonSet":
                about = {"name": name, "namespace": namespace, "uid": one["uid"]}
                self.add({"apiVersion": "apps/v1", "kind": controller, "metadata": about})
        spec = {"nodeName": node, "restartPolicy": "Never" if controller == "Job" else "Always"}
        spec["containers"] = [{"name": "main", "image": "app", "resources": {"limits": limits}}]
        self.pods[f"{namespace}/{short}"] = {
            "metadata": {**meta, **more.get("meta", {})},
            "spec": {**spec, **more.get("spec", {})},
            "status": {"phase": "Running", **more.get("status", {})},
        }
        return self.pods[f"{namespace}/{short}"]

    def patch_node(self, name: str, patch: Json, manager: str) -> None:
        """Merge a patch into a node as somebody does."""
        with self.news:
            before = self.nodes[name]
            self.nodes[name] = managed(before, merged(before, patch), manager)

    def annotations(self, node: str = "node-1") -> dict[str, str]:
        """The annotations of a node."""
        found: dict[str, str] = self.nodes[node]["metadata"]["annotations"]
        return found

    def cordoned(self, node: str = "node-1") -> bool:
        """Whether a node is unschedulable."""
        return bool(self.nodes[node]["spec"].get("unschedulable"))

    def changes(self) -> list[tuple[str, str]]:
        """What was asked that changes something."""
        return [
            one
            for one in self.requests
            if one[0] in ("PATCH", "POST") and "accessrev" not in one[1]
        ]

    # --- what becomes of pods ---

    def fate(self, made: Json) -> Json:
        """A pod that is made fares as the scene says."""
        if made["kind"] != "Pod":
            return made
        limits = made["spec"]["containers"][0]["resources"]["limits"]
        [resource] = (name for name in limits if "/" in name)
        found = {**made, "status": self.fates.get(resource, {"phase": "Running"})}
        self.made.append(found)
        return found

    def ends(self, pod: Json, seconds: int) -> bool:
        """A pod is gone once it is told to end, unless it goes on."""
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        return seconds == 0 or name not in self.ends_after

    def evicted(self, pod: Json, options: Json) -> None:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self.evictions.append({"pod": name, **options})

    def budgets_of(self, pod: Json) -> list[tuple[str, int, int]]:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        budget, allowed = self.budgets.get(name, ("", 1))
        return super().budgets_of(pod) if allowed else [(budget, 1, 1)]


class _Removed:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def add(self, name: str) -> None:
        """Let a namespace end."""
        meta = {"name": name, "deletionTimestamp": TIME}
        self._cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})


__all__ = ["DROP", "Cluster"]
