# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The outputs of labels, which are written there and removed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .._shared._cluster.machine.api import ApiError, if_there, understood
from ..cluster.access import Access
from ..config.configuration import Config
from ..tools import files, logs
from .api import NodeApi
from .health.reporter import NAME, Reporter
from .owned import change
from .settings import FEATURE, FILE, OFF, Settings

GROUP, VERSION, PLURAL = "nfd.k8s-sigs.io", "v1alpha1", "nodefeatures"
FEATURE_RIGHTS: Final = (
    "make this object and rights on it, as files/kubernetes/node-labels-rbac.yaml does for a node"
)
POD_RIGHTS: Final = "give the pod's ServiceAccount the right to get pods in its namespace"
Owners = list[dict[str, Any]]


class FileOutput:
    """Writes ``key=value`` lines for Node Feature Discovery; ``path`` empty is standard output."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._last: str | None = None

    def write(self, labels: Mapping[str, str]) -> None:
        """Write the labels, if they have changed.

        Raises:
            NodeError: if the file can't be written.
        """
        text = "".join(f"{key}={labels[key]}\n" for key in sorted(labels))
        if self._path is None:
            if text != self._last:
                print(text, end="", flush=True)
        elif _content(self._path) != text:
            with files.failing(f"can't write {self._path}"):
                files.replace(self._path, text, durable=True)
            logs.info("labels written", file=self._path, labels=len(labels))
        self._last = text

    def remove(self) -> None:
        """Remove the file, so that the labels go."""
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                logs.warning("the file of labels stays", file=self._path, cause=error)


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


class NodeFeature:
    """The node's NodeFeature object in a namespace, which Node Feature Discovery makes labels of.

    ``pod`` is that of this process, if it runs in one.
    """

    def __init__(self, access: Access, node: str, namespace: str, pod: str = "") -> None:
        self._access, self._node, self._namespace, self._pod = access, node, namespace, pod
        self._name = f"nvidia-features-for-{node}"
        self._folder = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"
        self._path = f"{self._folder}/{self._name}"
        self._owners: Owners | None = None
        self._asked = False

    def write(self, labels: Mapping[str, str]) -> bool:
        """Reconcile the object with these labels; return whether it had others.

        Raises:
            ApiError: if the API can't be asked, or refuses.
        """
        doing = f"writing NodeFeature {self._namespace}/{self._name}"
        existing = if_there(lambda: self._ask(doing, "GET", self._path))
        meta: dict[str, Any] = {
            "name": self._name,
            "labels": {"nfd.node.kubernetes.io/node-name": self._node},
        }
        owners = self._owned_by(anew=existing is None)
        if owners is not None:
            meta["ownerReferences"] = owners
        features: dict[str, Any] = {"attributes": {}, "flags": {}, "instances": {}}
        desired = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "NodeFeature",
            "metadata": meta,
            "spec": {"features": features, "labels": dict(labels)},
        }
        if existing is None:
            self._ask(doing, "POST", self._folder, desired)
            return True
        before = understood(doing, lambda: dict(existing["metadata"]))
        current = understood(doing, lambda: (existing.get("spec") or {}).get("labels"))
        if current == dict(labels) and {**before, **meta} == before:
            return False
        desired["metadata"] = {**before, **meta}
        self._ask(doing, "PUT", self._path, desired)
        return True

    def remove(self) -> None:
        """Remove the object, if it is there.

        Raises:
            ApiError: if the API can't be asked, or refuses.
        """
        doing = f"removing NodeFeature {self._namespace}/{self._name}"
        if_there(lambda: self._ask(doing, "DELETE", self._path))

    def _ask(self, doing: str, method: str, path: str, body: Any = None) -> Any:
        return self._access.ask(doing, method, path, body, rights=FEATURE_RIGHTS)

    def _owned_by(self, *, anew: bool) -> Owners | None:
        """Return the object's owners, None if they are not known, which leaves the object as it is.

        In a pod they are the pod and its DaemonSet, as GPU Feature Discovery has it; a pod without one has no owners.
        Else it is the node. One that registered again is another owner, and the former's object is gone by then.
        """
        if anew or not self._asked:
            try:
                if self._pod:
                    doing = f"reading pod {self._namespace}/{self._pod}"
                    path = f"/api/v1/namespaces/{self._namespace}/pods/{self._pod}"
                    self._owners = self._access.ask(
                        doing, "GET", path, rights=POD_RIGHTS, look=_owners
                    )
                else:
                    uid = NodeApi(self._access, self._node).read().node.uid
                    node = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid}
                    self._owners = [node]
            except ApiError as error:
                if not self._asked:
                    message = (
                        "the NodeFeature object stays when its node goes: its owner is not known"
                    )
                    logs.warning(message, cause=error)
                self._owners = None
            self._asked = True
        return self._owners


def _owners(pod: Mapping[str, Any]) -> Owners:
    meta = pod["metadata"]
    for owner_reference in meta.get("ownerReferences") or []:
        if owner_reference["kind"] == "DaemonSet":
            named = {key: owner_reference[key] for key in ("apiVersion", "kind", "name", "uid")}
            itself = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
            return [{**named, "controller": True}, itself]
    return []


@dataclass(frozen=True)
class Cluster:
    """The access to the API, and the objects of the node that are written through it."""

    access: Access
    node: NodeApi
    feature: NodeFeature


def connect(settings: Settings) -> Cluster:
    """Return the clients of the API for the node."""
    access, node = Access(settings.api.kubeconfig, settings.api.rate), settings.api.node
    feature = NodeFeature(access, node, settings.api.namespace, settings.api.pod)
    return Cluster(access, NodeApi(access, node), feature)


def reporter(settings: Settings, cluster: Callable[[], Cluster]) -> Reporter:
    """Return the reporter of the GPUs' health."""
    return Reporter(
        settings.api.node, settings.files.status.with_name(NAME), lambda: cluster().access
    )


def remove(settings: Settings, config: Config) -> int:
    """Remove our labels and annotations, and nobody else's.

    Raises:
        ApiError: if the API can't be asked, or refuses.
    """
    output = settings.label_output or settings.output(config.gfd)
    if output == FILE:
        FileOutput(config.gfd.output_file).remove()
    reporter(settings, lambda: connect(settings)).remove()
    if output in (FILE, OFF) and not settings.chooses:
        return 0
    cluster = connect(settings)
    if output == FEATURE:
        cluster.feature.remove()
    if settings.reads_node(config.gfd):
        planned = change(cluster.node.read().node, {})
        if planned:
            cluster.node.write(planned)
            logs.info("labels removed", node=settings.api.node, labels=list(planned.labels))
    return 0
