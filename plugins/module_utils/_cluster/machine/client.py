# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The Kubernetes API by its Python client, which only the controller has, and only this module imports."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import typing as t
import urllib.parse

from ..._base.errors import NodeError
from ..drain.node import MANAGER
from ..rights import Right
from ..trust import exposed
from . import api
from .api import Json


def user() -> str:
    """Return the user that this process runs as."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's, which has no name
        return str(os.getuid())


def describe_operator() -> str:
    """Return the user and the machine of this process."""
    return f"{user()}@{socket.gethostname()}"


class KubernetesApi:
    """An API server, by the access that a kubeconfig gives. Each request may raise ApiError.

    Raises:
        NodeError: if the kubeconfig can't be used.
    """

    def __init__(self, kubeconfig: str = "", context: str = "") -> None:
        client, config, urllib3 = _library()
        self.named = kubeconfig or os.environ.get("KUBECONFIG", "") or "~/.kube/config"
        _refuse_unreadable(self.named)
        self._settings = client.Configuration()
        try:
            options = {"client_configuration": self._settings, "persist_config": False}
            config.load_kube_config(self.named, context or None, **options)
            retries = urllib3.Retry(0, redirect=0)
            self._connection = api.Connection(client.ApiClient(self._settings), MANAGER, retries)
        except Exception as error:  # of many libraries: of YAML, of certificates, of login programs
            raise NodeError(
                f"kubeconfig (gpu_nodes_kubeconfig): {self.named!r} can't be used",
                cause=api.api_error("", error).cause,
                hint=f"see kubectl --kubeconfig {self.named} config get-contexts, and correct"
                " gpu_nodes_kubeconfig or gpu_nodes_context",
            ) from error

    @property
    def server(self) -> str:
        """Return the server's address."""
        return self._connection.server

    @property
    def warnings(self) -> t.Tuple[str, ...]:
        """Return warnings about the connection to the server."""
        warnings = exposed(self.server, verifies=bool(self._settings.verify_ssl))
        return (warnings,) if warnings else ()

    def node(self, name: str) -> Json:
        """Return a node."""
        return self.ask(f"reading node {name}", "GET", f"/api/v1/nodes/{_quoted(name)}")

    def nodes(self) -> t.List[str]:
        """Return the names of all nodes."""
        nodes = api.items(self.ask, "listing the nodes", "/api/v1/nodes", accept=api.METADATA)
        return [str(node["metadata"]["name"]) for node in nodes]

    def patch_node(self, name: str, patch: t.Mapping[str, t.Any]) -> Json:
        """Change a node."""
        query = {"fieldManager": MANAGER}
        path = f"/api/v1/nodes/{_quoted(name)}"
        return self.ask(f"changing node {name}", "PATCH", path, patch, query=query, kind=api.MERGE)

    def pods(self, node: str) -> t.List[Json]:
        """Return the pods of a node, of all namespaces."""
        doing, query = (
            f"listing the pods of node {node}",
            {"fieldSelector": f"spec.nodeName={node}"},
        )
        return list(api.items(self.ask, doing, "/api/v1/pods", query=query))

    def labelled_pods(self, namespace: str, label: str, value: str) -> t.List[Json]:
        """Return the pods of a namespace with a label."""
        doing, query = f"listing the pods of {namespace}", {"labelSelector": f"{label}={value}"}
        return list(api.items(self.ask, doing, _pod(namespace), query=query))

    def pod(self, namespace: str, name: str) -> Json:
        """Return a pod."""
        return self.ask(f"reading {namespace}/{name}", "GET", _pod(namespace, name))

    def create_pod(self, namespace: str, pod: t.Mapping[str, t.Any]) -> Json:
        """Make a pod and return it."""
        return self.ask(f"making a pod in {namespace}", "POST", _pod(namespace), pod)

    def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Remove the pod with this UID at once, unless it is gone."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        try:
            self.ask(f"removing {namespace}/{name}", "DELETE", _pod(namespace, name), body)
        except api.ApiError as error:
            if error.status not in (api.MISSING, api.CONFLICT):
                raise

    def resource_claim(self, namespace: str, name: str) -> Json:
        """Return a ResourceClaim."""
        doing = f"reading the resource claim {namespace}/{name}"
        groups = self.ask("listing the versions of resource.k8s.io", "GET", "/apis/resource.k8s.io")
        version = groups["preferredVersion"]["groupVersion"]
        path = f"namespaces/{_quoted(namespace)}/resourceclaims/{_quoted(name)}"
        return self.ask(doing, "GET", f"/apis/{version}/{path}")

    def daemonset(self, version: str, namespace: str, name: str) -> Json:
        """Return a DaemonSet of the API version, such as apps/v1."""
        path = f"/apis/{version}/namespaces/{_quoted(namespace)}/daemonsets/{_quoted(name)}"
        return self.ask(f"reading the DaemonSet {namespace}/{name}", "GET", path)

    def evict(self, namespace: str, name: str, uid: str, grace: t.Optional[int]) -> None:
        """Ask for the eviction of the pod with this UID; with None its own grace period counts."""
        options: Json = {"preconditions": {"uid": uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": options}
        body["metadata"] = {"namespace": namespace, "name": name}
        path = f"{_pod(namespace, name)}/eviction"
        self.ask(f"evicting {namespace}/{name}", "POST", path, body)

    def allowed(self, right: Right) -> bool:
        """Return whether the kubeconfig's user has a right."""
        group, spec = "authorization.k8s.io/v1", {"resourceAttributes": right.attributes}
        body = {"apiVersion": group, "kind": "SelfSubjectAccessReview", "spec": spec}
        path = f"/apis/{group}/selfsubjectaccessreviews"
        answer = self.ask("asking what the kubeconfig allows", "POST", path, body)
        return bool((answer.get("status") or {}).get("allowed"))

    def ask(
        self,
        doing: str,
        method: str,
        path: str,
        body: t.Any = None,
        *,
        query: t.Optional[api.Query] = None,
        kind: str = api.JSON,
        accept: str = api.JSON,
    ) -> Json:
        """Return the answer to a request for any object."""
        return self._connection.ask(doing, api.Request(method, path, body, query, kind, accept))


def _library() -> t.Tuple[t.Any, t.Any, t.Any]:
    try:
        import kubernetes.client
        import kubernetes.config
        import urllib3
    except ImportError as error:
        message = "the Python library kubernetes can't be imported on the controller"
        cause, hint = f"{sys.executable}: {error}", f"{sys.executable} -m pip install kubernetes"
        raise NodeError(message, cause=cause, hint=hint) from error
    return kubernetes.client, kubernetes.config, urllib3


def _refuse_unreadable(named: str) -> None:
    """Refuse a file that can't be read, which the client takes for an empty one."""
    if "\n" in named or named[:1] == "{":
        hint = "write it into a file that only its owner can read, and name that"
        raise NodeError("kubeconfig (gpu_nodes_kubeconfig): this is a text, and no path", hint=hint)
    cause = "no file is named"
    for path in filter(None, named.split(os.pathsep)):
        try:
            with open(os.path.expanduser(path), encoding="utf-8"):
                return
        except OSError as error:
            cause = error.strerror or str(error)
    message = f"kubeconfig (gpu_nodes_kubeconfig): {named!r} can't be read on the controller"
    readable = f"name a file that {describe_operator()} can read"
    hint = f"{readable}; a relative path is one of {os.getcwd()}"
    raise NodeError(message, cause=cause, hint=hint)


def _pod(namespace: str, name: str = "") -> str:
    folder = f"/api/v1/namespaces/{_quoted(namespace)}/pods"
    return f"{folder}/{_quoted(name)}" if name else folder


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")
