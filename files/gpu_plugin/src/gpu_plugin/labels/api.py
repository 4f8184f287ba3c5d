# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The Kubernetes API, as far as one node and its NodeFeature object go."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import kubernetes.client as k8s
import urllib3
from kubernetes import config as access
from kubernetes import watch
from kubernetes.config import exec_provider, kube_config

from .._shared._core.errors import NodeError
from .._shared._core.text import json_data
from .._shared._core.text.shown import cut
from ..tools.chores import Backoff
from . import kubeconfig as kubeconfig_file
from .owned import GONE, MISSING, ApiError, Change, NodeState

T = TypeVar("T")
exec_provider.subprocess = kube_config.subprocess = kubeconfig_file.BOUNDED

# Where kubelets of kubeadm, k3s, RKE2, k0s and of EKS' and Bottlerocket's nodes keep theirs.
KUBECONFIGS: Final = (
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/lib/k0s/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",
)
GROUP, VERSION, PLURAL = "nfd.k8s-sigs.io", "v1alpha1", "nodefeatures"
CONNECT, ANSWER = TIMES = (5.0, 30.0)
WATCH: Final = 120
LONGEST_PAUSE: Final = 60.0  # between two tries to follow a node
MERGE: Final = "application/merge-patch+json"
NODE_RIGHTS: Final = "give the kubeconfig's user the right to get, list, watch and patch this node"
FEATURE_RIGHTS: Final = (
    "make this object and rights on it, as files/kubernetes/node-labels-rbac.yaml does for a node"
)


def find_kubeconfig(given: str) -> str:
    """Return the kubeconfig to use, an empty text for a pod's own access. ApiError: there is none."""
    if given:
        if not Path(given).is_file():
            raise ApiError("looking for a kubeconfig", f"{given} is not there")
        return given
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return ""
    if found := next((path for path in KUBECONFIGS if Path(path).is_file()), ""):
        return found
    raise ApiError(
        "looking for a kubeconfig",
        f"none of {', '.join(KUBECONFIGS)} is there",
        hint="let the node join its cluster, or name a kubeconfig with --kubeconfig",
    )


class NodeApi:
    """One node, through a connection of its own, so that certificates may be renewed in between."""

    def __init__(self, kubeconfig: str, node: str) -> None:
        """Connect. ApiError: the kubeconfig can't be used."""
        self._node = node

        def client() -> k8s.ApiClient:
            settings = k8s.Configuration()
            if path := find_kubeconfig(kubeconfig):
                kubeconfig_file.look(path)
                access.load_kube_config(path, client_configuration=settings, persist_config=False)
            else:
                access.load_incluster_config(client_configuration=settings)
            settings.retries = False
            return k8s.ApiClient(settings)

        self._client = _asked("reading the kubeconfig", client)
        self._core = k8s.CoreV1Api(self._client)
        self._objects = k8s.CustomObjectsApi(self._client)
        self._feature = f"nvidia-features-for-{node}"

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def read(self) -> tuple[NodeState, str]:
        """Return the node and the version of the list that it was in. ApiError."""
        doing = f"reading node {self._node}"
        named = {"field_selector": f"metadata.name={self._node}"}
        found = _json(doing, self._core.list_node, **named)
        if not found.get("items"):
            raise ApiError(
                doing,
                "there is no such node",
                status=MISSING,
                hint="name the node with --node-name, or let the kubelet register it",
            )
        return _state(found["items"][0]), str(found["metadata"]["resourceVersion"])

    def follow(self, version: str) -> Iterator[NodeState]:
        """Yield the node each time that it changed, for two minutes. ApiError; GONE asks for read()."""
        doing = f"watching node {self._node}"
        events = watch.Watch(return_type="object").stream(
            self._core.list_node,
            field_selector=f"metadata.name={self._node}",
            resource_version=version,
            timeout_seconds=WATCH,
            _request_timeout=(CONNECT, WATCH + ANSWER),
        )
        while (event := _asked(doing, lambda: next(events, None))) is not None:
            if event["type"] == "DELETED":
                raise ApiError(doing, "the node was deleted", status=MISSING)
            if event["type"] in ("ADDED", "MODIFIED"):
                yield _state(event["raw_object"])

    def write(self, change: Change) -> NodeState:
        """Change the node and return it as it is then. ApiError."""
        doing, patch = f"labelling node {self._node}", self._core.patch_node
        how = {"field_manager": "gpu-node-labels", "_content_type": MERGE}
        return _state(_json(doing, patch, self._node, change.body, **how))

    def write_feature(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Reconcile the node's NodeFeature object with these labels; tell whether it had others. ApiError."""
        doing, objects = f"writing NodeFeature {namespace}/{self._feature}", self._objects
        place = (GROUP, VERSION, namespace, PLURAL)
        names = {"nfd.node.kubernetes.io/node-name": self._node}
        meta = {"name": self._feature, "labels": names}
        features: dict[str, Any] = {"attributes": {}, "flags": {}, "instances": {}}
        wanted = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "NodeFeature",
            "metadata": meta,
            "spec": {"features": features, "labels": dict(labels)},
        }
        found = _if_there(doing, objects.get_namespaced_custom_object, *place, self._feature)
        if found is None:
            _on_feature(doing, objects.create_namespaced_custom_object, *place, wanted)
            return True
        given = (found.get("spec", {}).get("labels"), found["metadata"].get("labels"))
        if given == (dict(labels), names):
            return False
        wanted["metadata"] = {**found["metadata"], **meta}
        replace = objects.replace_namespaced_custom_object
        _on_feature(doing, replace, *place, self._feature, wanted)
        return True

    def remove_feature(self, namespace: str) -> None:
        """Remove the node's NodeFeature object, if it is there. ApiError."""
        doing = f"removing NodeFeature {namespace}/{self._feature}"
        delete = self._objects.delete_namespaced_custom_object
        _if_there(doing, delete, GROUP, VERSION, namespace, PLURAL, self._feature)


def _on_feature(doing: str, method: Callable[..., Any], *arguments: Any) -> Any:
    return _asked(doing, lambda: method(*arguments, _request_timeout=TIMES), FEATURE_RIGHTS)


def _if_there(doing: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the API answers, None where the object is missing."""
    try:
        return _on_feature(doing, method, *arguments)
    except ApiError as error:
        if error.status != MISSING:
            raise
        return None


def _asked(doing: str, ask: Callable[[], T], rights: str = NODE_RIGHTS) -> T:
    """Ask, and turn all that can go wrong on the way into ApiError."""
    try:
        return ask()
    except ApiError:
        raise
    except NodeError as error:
        raise ApiError(doing, str(error)) from error
    except k8s.ApiException as error:
        hint = rights if error.status in (401, 403) else ""
        status = int(error.status or 0)
        raise ApiError(doing, f"{error.status} {_why(error)}", status=status, hint=hint) from error
    except (
        access.ConfigException,
        urllib3.exceptions.HTTPError,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        text = str(error).splitlines()[0] if str(error) else error.__class__.__name__
        raise ApiError(doing, cut(text)) from error


def _why(error: Any) -> str:
    """Return the message of a refusal."""
    try:
        return cut(str(json_data.loads(error.body)["message"]))
    except (ValueError, LookupError, TypeError):
        return str(error.reason)


def _json(doing: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return an answer's JSON; without models, a new field of a newer Kubernetes does no harm."""

    def ask() -> Any:
        response = method(*arguments, _preload_content=False, _request_timeout=TIMES, **options)
        if not 200 <= response.status <= 299:
            raise k8s.ApiException(http_resp=response)
        return json.loads(response.data)

    return _asked(doing, ask)


def _state(node: Mapping[str, Any]) -> NodeState:
    meta = node["metadata"]
    return NodeState(dict(meta.get("labels") or {}), dict(meta.get("annotations") or {}))


class NodeWatch(threading.Thread):
    """Reports the node's state, and each failure, through all that can happen to a connection."""

    def __init__(
        self,
        connect: Callable[[], NodeApi],
        report: Callable[[NodeState | ApiError], None],
        pause: float = 1.0,
    ) -> None:
        super().__init__(name="node", daemon=True)
        self._connect, self._report, self._pause = connect, report, pause
        self._backoff = Backoff(pause, LONGEST_PAUSE)
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            pause = self._pause
            try:
                with contextlib.closing(self._connect()) as connection:
                    self._follow(connection)
            except ApiError as error:
                if error.status != GONE:  # which only asks for the list to be read again
                    self._report(error)
                    pause = self._backoff.failed()
            self._stopping.wait(pause)

    def stop(self) -> None:
        """Ask for the end; a request under way is not waited for."""
        self._stopping.set()

    def _follow(self, connection: NodeApi) -> None:
        last, version = connection.read()
        self._backoff.reset()
        self._report(last)
        for state in connection.follow(version):
            if self._stopping.is_set():
                return
            if state != last:  # most changes are the kubelet's, and not of labels
                last = state
                self._report(state)
