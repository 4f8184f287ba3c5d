# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The Kubernetes API, as far as one node and its NodeFeature object go."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import kubernetes.client as k8s
import urllib3
from kubernetes import config as access
from kubernetes import watch

from .._shared._core.errors import NodeError
from .._shared._core.text import json_data
from .._shared._core.text.shown import cut
from . import kubeconfig as kubeconfig_file
from .owned import Change, NodeState

T = TypeVar("T")

# Where kubelets of kubeadm, k3s, RKE2, k0s and of EKS' and Bottlerocket's nodes keep theirs.
KUBECONFIGS: Final = (
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/lib/k0s/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",
)
GROUP, VERSION, PLURAL = "nfd.k8s-sigs.io", "v1alpha1", "nodefeatures"
CONNECT, ANSWER = 5.0, 30.0
WATCH: Final = 120
MERGE: Final = "application/merge-patch+json"
MISSING, CONFLICT, GONE = 404, 409, 410
NODE_RIGHTS: Final = "give the kubeconfig's user the right to get, list, watch and patch this node"
FEATURE_RIGHTS: Final = (
    "make this object and rights on it, as files/kubernetes/node-labels-rbac.yaml does for a node"
)


class ApiError(NodeError):
    """The API did not do what it was asked; ``status`` is HTTP's, 0 where there was no answer."""

    def __init__(self, doing: str, cause: str, *, status: int = 0, hint: str = "") -> None:
        super().__init__(f"the Kubernetes API failed while {doing}", cause=cause, hint=hint)
        self.status = status


def find_kubeconfig(given: str) -> str:
    """Return the kubeconfig to use, an empty text for a pod's own access. ApiError: there is none."""
    if given:
        if not Path(given).is_file():
            raise ApiError("looking for a kubeconfig", f"{given} is not there")
        return given
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return ""
    for path in KUBECONFIGS:
        if Path(path).is_file():
            return path
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
            path = find_kubeconfig(kubeconfig)
            if path:
                kubeconfig_file.look(path)
                access.load_kube_config(path, client_configuration=settings, persist_config=False)
            else:
                access.load_incluster_config(client_configuration=settings)
            settings.retries = False
            return k8s.ApiClient(settings)

        self._client = _asked("reading the kubeconfig", client)
        self._core = k8s.CoreV1Api(self._client)

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def read(self) -> tuple[NodeState, str]:
        """Return the node and the version of the list that it was in. ApiError."""
        found = _asked(
            f"reading node {self._node}",
            lambda: _json(
                self._core.list_node(
                    field_selector=f"metadata.name={self._node}",
                    _preload_content=False,
                    _request_timeout=(CONNECT, ANSWER),
                )
            ),
        )
        if not found.get("items"):
            raise ApiError(
                f"reading node {self._node}",
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
        return _state(
            _asked(
                f"labelling node {self._node}",
                lambda: _json(
                    self._core.patch_node(
                        self._node,
                        change.body,
                        field_manager="gpu-node-labels",
                        _content_type=MERGE,
                        _preload_content=False,
                        _request_timeout=(CONNECT, ANSWER),
                    )
                ),
            )
        )

    def write_feature(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Make the node's NodeFeature object have these labels; tell whether it had others. ApiError."""
        name = f"nvidia-features-for-{self._node}"
        objects = k8s.CustomObjectsApi(self._client)
        place = (GROUP, VERSION, namespace, PLURAL)
        times = {"_request_timeout": (CONNECT, ANSWER)}
        doing = f"writing NodeFeature {namespace}/{name}"
        wanted: dict[str, Any] = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "NodeFeature",
            "metadata": {
                "name": name,
                "labels": {"nfd.node.kubernetes.io/node-name": self._node},
            },
            "spec": {
                "features": {"attributes": {}, "flags": {}, "instances": {}},
                "labels": dict(labels),
            },
        }
        try:
            found = _asked(
                doing,
                lambda: objects.get_namespaced_custom_object(*place, name, **times),
                FEATURE_RIGHTS,
            )
        except ApiError as error:
            if error.status != MISSING:
                raise
            _asked(
                doing,
                lambda: objects.create_namespaced_custom_object(*place, wanted, **times),
                FEATURE_RIGHTS,
            )
            return True
        meta = wanted["metadata"]
        if (
            found.get("spec", {}).get("labels") == dict(labels)
            and found["metadata"].get("labels") == meta["labels"]
        ):
            return False
        wanted["metadata"] = {**found["metadata"], **meta}
        _asked(
            doing,
            lambda: objects.replace_namespaced_custom_object(*place, name, wanted, **times),
            FEATURE_RIGHTS,
        )
        return True

    def remove_feature(self, namespace: str) -> None:
        """Remove the node's NodeFeature object, if it is there. ApiError."""
        name = f"nvidia-features-for-{self._node}"
        objects = k8s.CustomObjectsApi(self._client)
        try:
            _asked(
                f"removing NodeFeature {namespace}/{name}",
                lambda: objects.delete_namespaced_custom_object(
                    GROUP, VERSION, namespace, PLURAL, name, _request_timeout=(CONNECT, ANSWER)
                ),
                FEATURE_RIGHTS,
            )
        except ApiError as error:
            if error.status != MISSING:
                raise


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
        raise ApiError(
            doing, f"{error.status} {_why(error)}", status=int(error.status or 0), hint=hint
        ) from error
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
    """Return the words of an answer that says no."""
    try:
        return cut(str(json_data.loads(error.body)["message"]))
    except (ValueError, LookupError, TypeError):
        return str(error.reason)


def _json(response: Any) -> Any:
    """Return an answer's JSON; without models, a new field of a newer Kubernetes does no harm."""
    if not 200 <= response.status <= 299:
        raise k8s.ApiException(http_resp=response)
    return json.loads(response.data)


def _state(node: Mapping[str, Any]) -> NodeState:
    meta = node["metadata"]
    return NodeState(dict(meta.get("labels") or {}), dict(meta.get("annotations") or {}))
