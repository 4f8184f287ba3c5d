# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's NodeFeature object, which Node Feature Discovery makes labels of, and who owns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..cluster.access import Access
from ..cluster.errors import ApiError, if_there, understood
from ..tools import logs
from .api import NodeApi

GROUP, VERSION, PLURAL = "nfd.k8s-sigs.io", "v1alpha1", "nodefeatures"
FEATURE_RIGHTS: Final = (
    "make this object and rights on it, as files/kubernetes/node-labels-rbac.yaml does for a node"
)
POD_RIGHTS: Final = "give the pod's ServiceAccount the right to get pods in its namespace"
Owners = list[dict[str, Any]]


class NodeFeature:
    """The object of one node in a namespace; ``pod`` is that of this process, where it runs in one."""

    def __init__(self, access: Access, node: str, namespace: str, pod: str = "") -> None:
        self._access, self._node, self._namespace, self._pod = access, node, namespace, pod
        self._name = f"nvidia-features-for-{node}"
        self._folder = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"
        self._path = f"{self._folder}/{self._name}"
        self._owners: Owners | None = None
        self._asked = False

    def write(self, labels: Mapping[str, str]) -> bool:
        """Reconcile the object with these labels; tell whether it had others. ApiError."""
        doing = f"writing NodeFeature {self._namespace}/{self._name}"
        found = if_there(lambda: self._ask(doing, "GET", self._path))
        meta: dict[str, Any] = {
            "name": self._name,
            "labels": {"nfd.node.kubernetes.io/node-name": self._node},
        }
        owners = self._owned_by(anew=found is None)
        if owners is not None:
            meta["ownerReferences"] = owners
        features: dict[str, Any] = {"attributes": {}, "flags": {}, "instances": {}}
        wanted = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "NodeFeature",
            "metadata": meta,
            "spec": {"features": features, "labels": dict(labels)},
        }
        if found is None:
            self._ask(doing, "POST", self._folder, wanted)
            return True
        before = understood(doing, lambda: dict(found["metadata"]))
        given = understood(doing, lambda: (found.get("spec") or {}).get("labels"))
        if given == dict(labels) and {**before, **meta} == before:
            return False
        wanted["metadata"] = {**before, **meta}
        self._ask(doing, "PUT", self._path, wanted)
        return True

    def remove(self) -> None:
        """Remove the object, if it is there. ApiError."""
        doing = f"removing NodeFeature {self._namespace}/{self._name}"
        if_there(lambda: self._ask(doing, "DELETE", self._path))

    def _ask(self, doing: str, method: str, path: str, body: Any = None) -> Any:
        return self._access.ask(doing, method, path, body, rights=FEATURE_RIGHTS)

    def _owned_by(self, *, anew: bool) -> Owners | None:
        """Return with whom the object goes; None where it is not known, which leaves it as it is.

        A node that registered again is another owner, and the object of the one before is gone by then.
        """
        if anew or not self._asked:
            try:
                self._owners = self._of_pod() if self._pod else self._of_node()
            except ApiError as error:
                if not self._asked:
                    what = "the NodeFeature object stays when its node goes: its owner is not known"
                    logs.warning(what, cause=error)
                self._owners = None
            self._asked = True
        return self._owners

    def _of_node(self) -> Owners:
        """Return the node, with which the object is to go."""
        uid = NodeApi(self._access, self._node).read().node.uid
        return [{"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid}]

    def _of_pod(self) -> Owners:
        """Return the pod and its DaemonSet, as GPU Feature Discovery does; none for another pod."""
        doing = f"reading pod {self._namespace}/{self._pod}"
        path = f"/api/v1/namespaces/{self._namespace}/pods/{self._pod}"
        owners: Owners = self._access.ask(doing, "GET", path, rights=POD_RIGHTS, look=_owners)
        return owners


def _owners(pod: Mapping[str, Any]) -> Owners:
    meta = pod["metadata"]
    for one in meta.get("ownerReferences") or []:
        if one["kind"] == "DaemonSet":
            named = {key: one[key] for key in ("apiVersion", "kind", "name", "uid")}
            itself = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
            return [{**named, "controller": True}, itself]
    return []
