# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in for the Kubernetes API: one node, what is about it, and what can go wrong with all of it.

It answers as an API server does: with Status objects, metadata alone where that is asked for, bookmarks, and
connections that go on after a watch has ended.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
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
STRATEGIC = "application/strategic-merge-patch+json"
DROP = 0  # a fault that ends the connection without an answer
EVENTS = "/api/v1/namespaces/default/events"
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired"}
REASONS |= {422: "Invalid", 429: "TooManyRequests"}
Json = dict[str, Any]


class Api:
    """``requests`` are method and path of all that came; ``faults`` are answers for the next ones.

    A fault is a method and a status, or DROP. ``expire()`` lets watches end with 410, ``end()`` as
    they do when their time is over, ``cut()`` in the middle of an event. ``token`` is what a client
    must have. ``allows`` tells whether it may do that, by method and path. ``objects`` are all but the
    node, by path; ``delays`` are seconds before an answer, by method; ``connections`` counts them, and
    ``clients`` are the names in the certificates of those that connected, where it speaks ``tls``.
    """

    def __init__(
        self, folder: Path, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        self.tls = tls
        self.clients: list[str] = []
        self.node: Json | None = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": NODE, "uid": "uid-1", "labels": {"kubernetes.io/hostname": NODE}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.objects: dict[str, Json] = {}
        self.delays: dict[str, float] = {}
        self.connections = 0
        self.requests: list[tuple[str, str]] = []
        self.faults: deque[tuple[str, int]] = deque()
        self.token = "good"
        self.allows: Callable[[str, str], bool] = lambda _method, _path: True
        self.version = 1
        self.oldest = 0
        self.epoch = self.cuts = 0
        self.news = threading.Condition()
        self.host, self.port = host, 0
        self.start()
        self.kubeconfig = folder / "kubelet.conf"
        self.write_kubeconfig(self.token)

    # --- the scene ---

    def handler(self) -> type[_Handler]:
        """What answers; another one knows more of the API."""
        return _Handler

    def start(self) -> None:
        """Listen, at the port of before if there was one."""
        handler = type("Handler", (self.handler(),), {"owner": self})

        self.server = _Server((self.host, self.port), handler)
        self.server.daemon_threads = True
        if self.tls is not None:
            self.server.socket = self.tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening and cut all watches."""
        self.server.shutdown()
        self.server.server_close()
        self.cut()

    def write_kubeconfig(self, token: str) -> None:
        """Write a kubeconfig for this server."""
        scheme = "http" if self.tls is None else "https"
        cluster = {"server": f"{scheme}://{self.host}:{self.port}"}
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
        """Break the connections of all watches."""
        with self.news:
            self.cuts += 1
            self.news.notify_all()

    def end(self) -> None:
        """End all watches."""
        with self.news:
            self.epoch += 1
            self.news.notify_all()

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


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    owner: Api
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.owner.connections += 1
        if isinstance(self.connection, ssl.SSLSocket):
            subject: Any = (self.connection.getpeercert() or {}).get("subject", ())
            self.owner.clients += [value for part in subject for _key, value in part]

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
        self.epoch, self.cuts = api.epoch, api.cuts  # of before anybody can know of the request
        api.requests.append((name, self.where.path))
        time.sleep(api.delays.get(name, 0))
        if api.faults and api.faults[0][0] == name:
            status = api.faults.popleft()[1]
            if status == DROP:
                self.close_connection = True
                return False
            self._fail(status, "by order of the test")
            return False
        scheme, _blank, token = self.headers.get("Authorization", "").partition(" ")
        if (scheme.lower(), token) != ("bearer", api.token):
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
                    items = [self._asked_for(api.shown())] if api.node else []
                    meta = {"resourceVersion": str(api.version)}
                self._send(200, {"kind": "NodeList", "metadata": meta, "items": items})
        elif path in api.objects:
            self._send(200, api.objects[path])
        else:
            self._fail(404, "not found")

    def do_PATCH(self) -> None:
        if not self._begin():
            return None
        api, kind = self.owner, self.headers["Content-Type"]
        if self.where.path in api.objects:
            assert kind == MERGE
            merged = _merged(api.objects[self.where.path], self.body)
            return self._keep(200, self.where.path, merged)
        if self.where.path == f"/api/v1/nodes/{NODE}/status":
            assert kind == STRATEGIC
            assert self.body.keys() == {"status"}
            api.merge({"status": {"conditions": self._conditions()}})
            return self._send(200, self._asked_for(api.shown()))
        if not self.where.path.startswith("/api/v1/nodes/"):
            return self._fail(404, "not found")
        assert kind == MERGE
        if self.where.path != f"/api/v1/nodes/{NODE}":
            return self._fail(403, "a node may change itself only")
        labels = self.body["metadata"].get("labels", {})
        if any("kubernetes.io/" in key for key in labels):
            return self._fail(403, "NodeRestriction forbids this label")
        if not all(LABEL.fullmatch(text or "") for text in labels.values()):
            return self._fail(422, "metadata.labels: Invalid value")
        api.merge(self.body)
        with api.news:
            return self._send(200, self._asked_for(api.shown()))

    def _conditions(self) -> list[Json]:
        """The node's conditions after a strategic merge patch, which goes by their types."""
        found = self.owner.conditions()
        for one in self.body["status"]["conditions"]:
            if one.get("$patch") == "delete":
                found.pop(one["type"], None)
            else:
                found[one["type"]] = {**found.get(one["type"], {}), **one}
        return list(found.values())

    def do_POST(self) -> None:
        if self._begin():
            place = f"{self.where.path}/{self.body['metadata']['name']}"
            if place in self.owner.objects:
                self._fail(409, "already exists", "AlreadyExists")
            else:
                self._keep(201, place, self.body)

    def do_PUT(self) -> None:
        if not self._begin():
            return
        found = self.owner.objects.get(self.where.path)
        if found is None:
            self._fail(404, "not found")
        elif self.body["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
            self._fail(409, "the object has been modified")
        else:
            self._keep(200, self.where.path, self.body)

    def do_DELETE(self) -> None:
        if not self._begin():
            return
        if self.owner.objects.pop(self.where.path, None):
            self._send(200, {"kind": "Status", "status": "Success"})
        else:
            self._fail(404, "not found")

    def _asked_for(self, found: Json) -> Json:
        """Metadata alone, where no more is asked for."""
        if "as=PartialObjectMetadata" not in self.headers["Accept"]:
            return found
        return {"kind": "PartialObjectMetadata", "metadata": found["metadata"]}

    def _keep(self, status: int, place: str, found: Json) -> None:
        with self.owner.news:
            self.owner.version += 1
            version = str(self.owner.version)
            found = {**found, "metadata": {**found["metadata"], "resourceVersion": version}}
            self.owner.objects[place] = found
        self._send(status, found)

    def _watch(self) -> None:
        """Send what happens to the node; what happens to other objects becomes bookmarks."""
        api, seen, shown = self.owner, int(self.asked["resourceVersion"]), None
        deadline = time.monotonic() + float(self.asked["timeoutSeconds"])
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        while time.monotonic() < deadline and api.epoch == self.epoch:
            with api.news:
                if api.cuts != self.cuts:
                    return self._break()
                if api.version == seen:
                    api.news.wait(0.05)
                    continue
                event = self._event(seen, shown)
                seen, shown = api.version, api.node
            self._chunk(json.dumps(event).encode() + b"\n")
            if event["type"] in ("ERROR", "DELETED"):
                break
        self._chunk(b"")
        return None

    def _event(self, seen: int, shown: Json | None) -> Json:
        if seen < self.owner.oldest:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}
            return {"type": "ERROR", "object": gone}
        if self.owner.node is None:
            return {"type": "DELETED", "object": self._asked_for(shown or {"metadata": {}})}
        kind = "BOOKMARK" if shown is self.owner.node else "MODIFIED"
        return {"type": kind, "object": self._asked_for(self.owner.shown())}

    def _break(self) -> None:
        """End in the middle of an event."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self._chunk(b'{"type": "MODIFIED", "obj')
            self.connection.shutdown(socket.SHUT_RDWR)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _fail(self, status: int, message: str, reason: str = "") -> None:
        reason = reason or REASONS.get(status, "InternalError")
        self._send(
            status,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": status,
                "reason": reason,
                "message": message,
            },
        )

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
