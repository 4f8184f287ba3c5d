# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in for the Kubernetes API: one node, its NodeFeature, and what can go wrong with both."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

NODE = "node-1"
MERGE = "application/merge-patch+json"
DROP = 0  # a fault that ends the connection without an answer
Json = dict[str, Any]


class Api:
    """``requests`` are method and path of all that came; ``faults`` are answers for the next ones.

    A fault is a method and a status, or DROP. ``expire()`` lets watches end with 410, ``cut()`` at
    once. ``token`` is what a client must have. ``allows`` tells whether it may do that, by method
    and path.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.node: Json | None = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}},
        }
        self.features: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        self.faults: deque[tuple[str, int]] = deque()
        self.token = "good"
        self.allows: Callable[[str, str], bool] = lambda _method, _path: True
        self.version = 1
        self.oldest = 0
        self.epoch = 0
        self.news = threading.Condition()
        self.host, self.port = host, 0
        self.start()
        self.kubeconfig = folder / "kubelet.conf"
        self.write_kubeconfig(self.token)

    # --- the scene ---

    def start(self) -> None:
        """Listen, at the port of before if there was one."""
        api = self

        class Handler(_Handler):
            owner = api

        self.server = ThreadingHTTPServer((self.host, self.port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening and cut all watches."""
        self.server.shutdown()
        self.server.server_close()
        self.cut()

    def write_kubeconfig(self, token: str) -> None:
        """Write a kubeconfig for this server."""
        cluster = {"server": f"http://{self.host}:{self.port}"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "node", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "node"}}],
        }
        self.kubeconfig.write_text(json.dumps(config))

    def cut(self) -> None:
        """End all watches."""
        with self.news:
            self.epoch += 1
            self.news.notify_all()

    def expire(self) -> None:
        """Forget the past: who watches from there is told so."""
        with self.news:
            self.version += 1
            self.oldest = self.version
            self.news.notify_all()

    def set(self, kind: str = "labels", **values: str | None) -> None:
        """Change labels or annotations as somebody else would; in names, __ is a slash, _ a dot."""
        named = {key.replace("__", "/").replace("_", "."): text for key, text in values.items()}
        self.merge({"metadata": {kind: named}})

    def merge(self, patch: Json) -> None:
        """Apply a merge patch to the node."""
        with self.news:
            assert self.node is not None
            self.node = _merged(self.node, patch)
            self.version += 1
            self.news.notify_all()

    def counted(self, method: str) -> int:
        """How many requests of a method there were."""
        return sum(one == method for one, _path in self.requests)

    def own(self, kind: str = "labels") -> dict[str, str]:
        """The node's labels or annotations, without the one that it was born with."""
        with self.news:
            found = (self.node or {"metadata": {}})["metadata"].get(kind, {})
            return {key: text for key, text in found.items() if key != "kubernetes.io/hostname"}

    def shown(self) -> Json:
        """The node as it is sent."""
        assert self.node is not None
        meta = {**self.node["metadata"], "resourceVersion": str(self.version)}
        return {**self.node, "metadata": meta}


class _Handler(BaseHTTPRequestHandler):
    owner: Api
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _begin(self) -> bool:
        """Note the request; return whether there is nothing that stands in its way."""
        api, method = self.owner, self.command
        size = int(self.headers.get("Content-Length") or 0)
        self.body = json.loads(self.rfile.read(size)) if size else None
        self.where = urlsplit(self.path)
        self.asked = {key: some[0] for key, some in parse_qs(self.where.query).items()}
        name = "WATCH" if self.asked.get("watch") in ("true", "True") else method
        api.requests.append((name, self.where.path))
        if api.faults and api.faults[0][0] == name:
            status = api.faults.popleft()[1]
            if status == DROP:
                self.close_connection = True
                return False
            self._fail(status, "by order of the test")
            return False
        if self.headers.get("Authorization") != f"Bearer {api.token}":
            self._fail(401, "Unauthorized")
            return False
        if not api.allows(name, self.where.path):
            self._fail(403, "the role does not allow it")
            return False
        return True

    def do_GET(self) -> None:
        if not self._begin():
            return
        api, path = self.owner, self.where.path
        if path == "/api/v1/nodes":
            if self.asked.get("fieldSelector") != f"metadata.name={NODE}":
                self._fail(403, "a node may list itself only")
            elif "watch" in self.asked:
                self._watch()
            else:
                with api.news:
                    items = [api.shown()] if api.node else []
                    meta = {"resourceVersion": str(api.version)}
                self._send(200, {"kind": "NodeList", "metadata": meta, "items": items})
        elif path in api.features:
            self._send(200, api.features[path])
        else:
            self._fail(404, "not found")

    def do_PATCH(self) -> None:
        if not self._begin():
            return None
        api = self.owner
        assert self.headers["Content-Type"] == MERGE
        if self.where.path != f"/api/v1/nodes/{NODE}":
            return self._fail(403, "a node may change itself only")
        if any("kubernetes.io/" in key for key in self.body["metadata"].get("labels", {})):
            return self._fail(403, "NodeRestriction forbids this label")
        api.merge(self.body)
        with api.news:
            return self._send(200, api.shown())

    def do_POST(self) -> None:
        if self._begin():
            assert self.body is not None
            place = f"{self.where.path}/{self.body['metadata']['name']}"
            self._keep(201, place)

    def do_PUT(self) -> None:
        if self._begin():
            before = self.owner.features[self.where.path]["metadata"]["resourceVersion"]
            if self.body["metadata"].get("resourceVersion") != before:
                return self._fail(409, "the object has been modified")
            self._keep(200, self.where.path)
        return None

    def do_DELETE(self) -> None:
        if not self._begin():
            return
        if self.owner.features.pop(self.where.path, None):
            self._send(200, {"kind": "Status", "status": "Success"})
        else:
            self._fail(404, "not found")

    def _keep(self, status: int, place: str) -> None:
        self.owner.version += 1
        self.body["metadata"]["resourceVersion"] = str(self.owner.version)
        self.owner.features[place] = self.body
        self._send(status, self.body)

    def _watch(self) -> None:
        api, seen = self.owner, int(self.asked["resourceVersion"])
        deadline = time.monotonic() + float(self.asked["timeoutSeconds"])
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        epoch = api.epoch
        while time.monotonic() < deadline and api.epoch == epoch:
            with api.news:
                if api.version == seen:
                    api.news.wait(0.05)
                    continue
                if seen < api.oldest:
                    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}
                    event = {"type": "ERROR", "object": gone}
                else:
                    seen = api.version
                    event = {"type": "MODIFIED", "object": api.shown()}
            self._chunk(json.dumps(event).encode() + b"\n")
            if event["type"] == "ERROR":
                break
        if api.epoch == epoch:
            self._chunk(b"")
        self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _fail(self, status: int, message: str) -> None:
        self._send(status, {"kind": "Status", "code": status, "message": message})

    def _send(self, status: int, answer: Json) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


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
