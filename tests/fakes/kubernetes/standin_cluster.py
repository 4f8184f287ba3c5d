# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in for the API server of a cluster: nodes and pods, evictions with budgets, and RBAC by verb.

It enforces what a genuine one does: a resourceVersion that is given, the UID in an eviction's preconditions,
budgets, and the time that pods take to end. test_cluster_drain.py holds the two side by side.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
DROP = 0  # a fault that ends the connection without an answer
POD = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)(/eviction)?")
PODS = re.compile(r"/api/v1/namespaces/([^/]+)/pods")
NODE = re.compile(r"/api/v1/nodes/([^/]+)")
CLAIM = re.compile(r"/apis/resource.k8s.io/v1/namespaces/([^/]+)/resourceclaims/([^/]+)")
VERBS = {"GET": "get", "PATCH": "patch", "POST": "create", "DELETE": "delete"}
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
RECREATED = (
    "the UID in the precondition ({given}) does not match the UID in record ({uid})."
    " The object might have been deleted and then recreated"
)
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


class Cluster:
    """``pods`` by namespace/name; ``budgets`` are names of budgets and how many evictions they allow.

    ``ends_after`` are the seconds that a pod takes to end once it is evicted, by its name; ``completes`` when
    it runs to completion, in time.monotonic(). ``removed`` are namespaces that end, ``fates`` the
    status of pods that are made, by the resource that they ask for. ``allows`` tells of a verb
    and a resource. ``faults`` are a method and a status, or DROP, for the next requests; ``before`` is called
    with method and path of each.
    """

    def __init__(self, folder: Path) -> None:
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.claims: dict[str, Json] = {}
        self.budgets: dict[str, tuple[str, int]] = {}
        self.ends_after: dict[str, float] = {}
        self.completes: dict[str, float] = {}
        self.gone_at: dict[str, float] = {}
        self.removed: set[str] = set()
        self.fates: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        self.evictions: list[Json] = []
        self.made: list[Json] = []
        self.faults: deque[tuple[str, int]] = deque()
        self.before: Callable[[str, str], None] = lambda _method, _path: None
        self.allows: Callable[[str, str], bool] = lambda _verb, _resource: True
        self.version, self.port = 1, 0
        self.uids = itertools.count()
        self.lock = threading.RLock()
        self.start()
        self.kubeconfig = folder / "admin.conf"
        self.kubeconfig.write_text(json.dumps(self.access()))

    def start(self) -> None:
        """Listen, at the port of before if there was one."""
        cluster = self

        class Handler(_Handler):
            owner = cluster

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        self.server.shutdown()
        self.server.server_close()

    def access(self) -> Json:
        """Return a kubeconfig for this server, with a context that leads nowhere beside the good one."""
        cluster = {"server": f"http://127.0.0.1:{self.port}"}
        here = {"cluster": "here", "user": "admin"}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [
                {"name": "here", "cluster": cluster},
                {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}},
            ],
            "users": [{"name": "admin", "user": {"token": "good"}}],
            "contexts": [
                {"name": "here", "context": here},
                {"name": "nowhere", "context": {**here, "cluster": "nowhere"}},
            ],
        }

    # --- the scene ---

    def add_node(self, name: str, **spec: Any) -> None:
        """Add a node; one that is unschedulable was made so by kubectl."""
        meta = {"name": name, "resourceVersion": "1", "annotations": {}, "managedFields": []}
        self.nodes[name] = {"metadata": meta, "spec": {}}
        if spec:
            self.patch_node(name, {"spec": spec}, "kubectl-cordon")

    def add_pod(
        self, name: str, node: str = "node-1", controller: str = "ReplicaSet", **more: Any
    ) -> Json:
        """Add a pod that runs; ``gpus`` counts what it asks for, ``spec`` and ``meta`` are merged in."""
        namespace, _slash, short = name.rpartition("/")
        gpus = more.get("gpus", 0)
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        meta = {"namespace": namespace or "default", "name": short, "uid": f"uid-{next(self.uids)}"}
        if controller:
            meta["ownerReferences"] = [{"kind": controller, "name": "x", "controller": True}]
        spec = {"nodeName": node, "restartPolicy": "Never" if controller == "Job" else "Always"}
        spec["containers"] = [{"name": "main", "image": "app", "resources": {"limits": limits}}]
        pod = {
            "metadata": {**meta, **more.get("meta", {})},
            "spec": {**spec, **more.get("spec", {})},
            "status": {"phase": "Running", **more.get("status", {})},
        }
        self.pods[f"{meta['namespace']}/{short}"] = pod
        return pod

    def patch_node(self, name: str, patch: Json, manager: str) -> Json | None:
        """Merge a patch into a node as somebody does; None where it is for another version."""
        with self.lock:
            node = self.nodes[name]
            wanted = patch.get("metadata", {}).get("resourceVersion")
            if wanted is not None and wanted != node["metadata"]["resourceVersion"]:
                return None
            before = node["spec"].get("unschedulable")
            node = _merged(node, patch)
            self.version += 1
            node["metadata"]["resourceVersion"] = str(self.version)
            if node["spec"].get("unschedulable") != before:
                fields = {"f:spec": {"f:unschedulable": {}}}
                node["metadata"]["managedFields"] = [{"manager": manager, "fieldsV1": fields}]
            self.nodes[name] = node
            return node

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

    # --- what happens to pods ---

    def make(self, pod: Json) -> Json:
        """Make a pod as somebody asked for; it fares as the scene says."""
        with self.lock:
            meta, uid = pod["metadata"], f"uid-{next(self.uids)}"
            made = {**meta, "name": f"{meta['generateName']}{uid[4:]}", "uid": uid}
            [resource] = pod["spec"]["containers"][0]["resources"]["limits"]
            found = {
                **pod,
                "metadata": made,
                "status": self.fates.get(resource, {"phase": "Running"}),
            }
            self.pods[f"{meta['namespace']}/{made['name']}"] = found
            self.made.append(found)
            return found

    def look(self) -> list[Json]:
        """Return the pods that are there at this moment."""
        now = time.monotonic()
        with self.lock:
            for name, pod in list(self.pods.items()):
                if self.gone_at.get(pod["metadata"]["uid"], now + 1) <= now:
                    del self.pods[name]
                elif self.completes.get(name, now + 1) <= now:
                    pod["status"]["phase"] = "Succeeded"
            return list(self.pods.values())

    def evict(self, name: str, body: Json) -> tuple[int, Json]:
        """Answer a request for an eviction."""
        with self.lock:
            self.look()
            pod = self.pods.get(name)
            if pod is None:
                return status(404, "NotFound", f'pods "{name.partition("/")[2]}" not found')
            namespace = name.partition("/")[0]
            if namespace in self.removed:
                said = f"unable to create new content in namespace {namespace} because it is being terminated"
                cause = f"namespace {namespace} is being terminated"
                return status(403, "Forbidden", said, ("NamespaceTerminating", cause))
            options, uid = body.get("deleteOptions") or {}, pod["metadata"]["uid"]
            budget, allowed = self.budgets.get(name, ("", 1))
            if allowed < 1:
                cause = f"The disruption budget {budget} needs 1 healthy pods and has 1 currently"
                return status(429, "TooManyRequests", BUDGET, ("DisruptionBudget", cause))
            given = (options.get("preconditions") or {}).get("uid", uid)
            if given != uid:
                pod_name = pod["metadata"]["name"]
                said = f'Operation cannot be fulfilled on Pod "{pod_name}": {RECREATED}'
                said = said.format(given=given, uid=uid)
                return status(409, "Conflict", said)
            self.evictions.append({"pod": name, **options})
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.gone_at[uid] = time.monotonic() + self.ends_after.get(name, 0)
            return 201, {"kind": "Status", "status": "Success"}


def status(
    code: int, reason: str, message: str, cause: tuple[str, str] | None = None
) -> tuple[int, Json]:
    """Return the answer to a request that is refused."""
    details = {"causes": [{"reason": cause[0], "message": cause[1]}]} if cause else {}
    said = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return code, {**said, "details": details}


class _Handler(BaseHTTPRequestHandler):
    owner: Cluster
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        where, cluster, method = urlsplit(self.path), self.owner, self.command
        self.query = {key: some[0] for key, some in parse_qs(where.query).items()}
        size = int(self.headers.get("Content-Length") or 0)
        self.body = json.loads(self.rfile.read(size)) if size else {}
        cluster.requests.append((method, where.path))
        cluster.before(method, where.path)
        if cluster.faults and cluster.faults[0][0] == method:
            code = cluster.faults.popleft()[1]
            if code == DROP:
                self.close_connection = True
                return
            self._send(*status(code, "InternalError", "by order of the test"))
        elif self.headers.get("Authorization") != "Bearer good":
            self._send(*status(401, "Unauthorized", "Unauthorized"))
        else:
            self._send(*self._answer(method, where.path))

    def _answer(self, method: str, path: str) -> tuple[int, Json]:
        verb, resource, name = _asked(method, path)
        if not self.owner.allows(verb, resource):
            named = f'{resource.partition("/")[0]} "{name}" is forbidden: User "me" cannot {verb}'
            return status(403, "Forbidden", named)
        return {
            "selfsubjectaccessreviews": self._review,
            "nodes": self._node if name else self._nodes,
            "pods": lambda: self._pod(name) if name else self._pods(path),
            "pods/eviction": lambda: self.owner.evict(name, self.body),
            "resourceclaims": lambda: self._one(self.owner.claims, name, "resourceclaims"),
            "resource.k8s.io": lambda: (
                200,
                {"preferredVersion": {"groupVersion": f"{resource}/v1"}},
            ),
        }.get(resource, lambda: status(404, "NotFound", "no such page"))()

    def _review(self) -> tuple[int, Json]:
        found = self.body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (found["resource"], found.get("subresource"))))
        return 201, {"status": {"allowed": self.owner.allows(found["verb"], resource)}}

    def _nodes(self) -> tuple[int, Json]:
        return 200, {"items": [{"metadata": one["metadata"]} for one in self.owner.nodes.values()]}

    def _node(self) -> tuple[int, Json]:
        name = _asked(self.command, urlsplit(self.path).path)[2]
        if self.command == "PATCH" and name in self.owner.nodes:
            assert self.headers["Content-Type"] == "application/merge-patch+json"
            node = self.owner.patch_node(name, self.body, self.query["fieldManager"])
            if node is None:
                said = f'Operation cannot be fulfilled on nodes "{name}": {MODIFIED}'
                return status(409, "Conflict", said)
        return self._one(self.owner.nodes, name, "nodes")

    def _pods(self, path: str) -> tuple[int, Json]:
        """List the pods of a node, or those of a namespace with a label; or make one."""
        if self.command == "POST":
            return 201, self.owner.make(self.body)
        pods = self.owner.look()
        if match := PODS.fullmatch(path):
            key, _equals, value = self.query["labelSelector"].partition("=")
            metas = ((one, one["metadata"]) for one in pods)
            chosen = [
                one
                for one, meta in metas
                if (meta["namespace"], meta.get("labels", {}).get(key)) == (match[1], value)
            ]
        else:
            key, _equals, node = self.query["fieldSelector"].partition("=")
            assert key == "spec.nodeName"
            chosen = [pod for pod in pods if pod["spec"].get("nodeName") == node]
        return 200, {"items": chosen}

    def _pod(self, name: str) -> tuple[int, Json]:
        code, pod = self._one(self.owner.pods, name, "pods")
        if self.command == "DELETE" and code == 200:
            assert self.body["preconditions"]["uid"] == pod["metadata"]["uid"]
            del self.owner.pods[name]
        return code, pod

    def _one(self, where: dict[str, Json], name: str, kind: str) -> tuple[int, Json]:
        if name in where:
            return 200, where[name]
        return status(404, "NotFound", f'{kind} "{name}" not found')

    def _send(self, code: int, answer: Json) -> None:
        data = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _asked(method: str, path: str) -> tuple[str, str, str]:
    """Return verb, resource with subresource, and name of what is asked for."""
    if path in ("/api/v1/nodes", "/api/v1/pods"):
        return "list", path.rpartition("/")[2], ""
    if match := NODE.fullmatch(path):
        return VERBS[method], "nodes", match[1]
    if match := POD.fullmatch(path):
        return VERBS[method], f"pods{match[3] or ''}", f"{match[1]}/{match[2]}"
    if PODS.fullmatch(path):
        return "list" if method == "GET" else VERBS[method], "pods", ""
    if match := CLAIM.fullmatch(path):
        return VERBS[method], "resourceclaims", f"{match[1]}/{match[2]}"
    return VERBS[method], path.rpartition("/")[2], ""


def _merged(value: Json, patch: Json) -> Json:
    found = dict(value)
    for key, part in patch.items():
        if part is None:
            found.pop(key, None)
        elif isinstance(part, dict):
            found[key] = _merged(found.get(key) or {}, part)
        else:
            found[key] = part
    return found
