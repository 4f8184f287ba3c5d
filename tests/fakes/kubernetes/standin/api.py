# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in for a Kubernetes API server: its objects, who may do what with them, and what can go wrong.

It answers as Kubernetes 1.36 does, which tests/fakes/kubernetes/recordings holds it to.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.fakes.kubernetes.standin import authorizers, evictions, selectors
from tests.fakes.kubernetes.standin.answers import NO_PAGE, Refused, forbidden
from tests.fakes.kubernetes.standin.authorizers import ADMIN, User
from tests.fakes.kubernetes.standin.gates import Gates
from tests.fakes.kubernetes.standin.requests import Request
from tests.fakes.kubernetes.standin.resources import KINDS, RESOURCES, WORDS, Asked, read
from tests.fakes.kubernetes.standin.server import Server
from tests.fakes.kubernetes.standin.store import Store, named
from tests.fakes.kubernetes.standin.verbs import Doing
from tests.support.ports import reserve

Json = dict[str, Any]
SPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class StandIn(Gates):
    """``requests`` are method, or WATCH or DRY, and path of all that came; ``faults`` are answers for the next ones.

    A fault is a method and a status, or DROP; ``hold()`` keeps answers until the test lets them go. ``before`` is
    called with method and path of each request. ``user`` is whom ``token`` is given to, ``users`` are others by their
    tokens, and ``admin`` may do anything; ``allows`` tells whether anybody may do something, by verb and resource,
    beside what their roles say. ``objects`` are there by their paths. ``expire()`` lets watches end with 410,
    ``end()`` as they do when their time is over, ``cut()`` in the middle of an event. ``connections`` counts them, and
    ``clients`` are the names in the certificates of those that connected, where it speaks ``tls``. ``drops`` are
    fields that it forgets, ``version`` what it says of itself.
    """

    admin = ADMIN

    def __init__(
        self, folder: Path, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__()
        self.tls, self.host, self.port = tls, host, reserve(self, host)
        self.clients: list[str] = []
        self.connections = 0
        self.requests: list[tuple[str, str]] = []
        self.faults: deque[tuple[str, int]] = deque()
        self.before: Callable[[str, str], object] = lambda _method, _path: None
        self.allows: Callable[[str, str], bool] = lambda _verb, _resource: True
        self.token, self.user = "good", ADMIN
        self.users: dict[str, User] = {}
        self.drops: tuple[str, ...] = ()
        self.version = "v1.36.3"
        self.epoch = self.cuts = 0
        self.objects = Store()
        self.news = self.objects.news
        self.nodes = named(self.objects, RESOURCES["v1", "nodes"])
        self.pods = named(self.objects, RESOURCES["v1", "pods"])
        resources = "resource.k8s.io/v1"
        self.slices = named(self.objects, RESOURCES[resources, "resourceslices"])
        self.claims = named(self.objects, RESOURCES[resources, "resourceclaims"])
        for name in SPACES:
            self.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.start()
        self.kubeconfig = folder / "kubelet.conf"
        self.write_kubeconfig(self.token)

    def add(self, *some: Json) -> None:
        """Let objects be there."""
        for one in some:
            kinds = {kind: RESOURCES[api, name] for (api, name), kind in _kinds()}
            resource = kinds[one["apiVersion"], one["kind"]]
            meta = one["metadata"]
            if one["kind"] == "Namespace":
                labels = {"kubernetes.io/metadata.name": meta["name"], **meta.get("labels", {})}
                one = {**one, "metadata": {**meta, "labels": labels}}
            space = meta.get("namespace", "default")
            self.objects[resource.path(space, meta["name"])] = one

    # --- the scene ---

    def start(self) -> None:
        """Listen, at the port of before if it was stopped."""
        self.server = Server(self, (self.host, self.port))
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening, cut all watches and let all answers go."""
        self.open_gates()
        self.server.shutdown()
        self.server.server_close()
        self.cut()

    def access(self, token: str = "good") -> Json:
        """Return a kubeconfig for this server, with a context that leads nowhere beside the good one."""
        scheme = "http" if self.tls is None else "https"
        cluster = {"server": f"{scheme}://{self.host}:{self.port}"}
        here = {"cluster": "here", "user": "node"}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [
                {"name": "here", "cluster": cluster},
                {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}},
            ],
            "users": [{"name": "node", "user": {"token": token}}],
            "contexts": [
                {"name": "here", "context": here},
                {"name": "nowhere", "context": {**here, "cluster": "nowhere"}},
            ],
        }

    def write_kubeconfig(self, token: str) -> None:
        """Write a kubeconfig for this server."""
        self.kubeconfig.write_text(json.dumps(self.access(token)))

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

    def expire(self) -> None:
        """Forget the past: who watches from there is told so."""
        self.objects.forget()

    def counted(self, method: str) -> int:
        """How many requests of a method there were."""
        return sum(one == method for one, _path in self.requests)

    # --- what becomes of pods, which a scene may say otherwise ---

    def fate(self, made: Json) -> Json:
        """Return an object that was made as it is then."""
        return made

    def ends(self, _pod: Json, seconds: int) -> bool:
        """Return whether a pod that is to end is gone at once."""
        return seconds == 0

    def evicted(self, pod: Json, options: Json) -> None:
        """Note an eviction."""

    def budgets_of(self, pod: Json) -> list[tuple[str, int, int]]:
        """Return the budgets that keep a pod: name, pods that are needed, and pods that are well."""
        space = pod["metadata"]["namespace"]
        every = self.objects.of(RESOURCES["policy/v1", "poddisruptionbudgets"], space)
        return evictions.exhausted(pod, every)

    # --- requests ---

    def who(self, authorization: str) -> User:
        """Return who asks. Refused: nobody that is known."""
        scheme, _blank, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token == self.token:
            return self.user
        if scheme.lower() == "bearer" and token in self.users:
            return self.users[token]
        raise Refused(401, "Unauthorized")

    def asked(self, request: Request) -> Asked:
        """Return what a request is about, once its user may make it. Refused."""
        found = read(request.method, request.path, request.watching)
        if found is None:
            known = (match := WORDS.fullmatch(request.path)) and _version(match) in KINDS
            raise Refused(404, NO_PAGE if known else "404 page not found", {} if known else None)
        fields = selectors.fields(request.query)
        if not found.name and found.verb in ("list", "watch", "deletecollection"):
            only = fields.get("metadata.name", "")
            bounded = Asked(found.verb, found.resource, found.namespace, only, found.subresource)
        else:
            bounded = found
        if not self.allows(found.verb, found.what):
            raise forbidden(bounded, request.user.name)
        why = authorizers.refusal(request.user, bounded, fields, self.objects)
        if why is not None:
            raise forbidden(bounded, request.user.name, why)
        return found

    def answer(self, request: Request) -> tuple[int, Json]:
        """Return the answer to a request that is no watch. Refused."""
        if page := self._page(request.path):
            return 200, page
        return Doing(self, request, self.asked(request)).answer()

    def _page(self, path: str) -> Json | None:
        """Return what is said of the server itself."""
        if path == "/version":
            return {"major": "1", "minor": "36", "gitVersion": self.version}
        served = {f"/{'apis' if '/' in api else 'api'}/{api}": api for api in KINDS}
        if path in served:
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served[path]}
        group = path.removeprefix("/apis/")
        versions = [api for api in KINDS if api.partition("/")[0] == group and "/" in api]
        if path == group or not versions:
            return None
        told = [{"groupVersion": one, "version": one.partition("/")[2]} for one in versions]
        found = {"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": told}
        return {**found, "preferredVersion": told[0]}

    def review(self, user: User, body: Json) -> Json:
        """Return whether somebody may do something."""
        given: Mapping[str, str] = body["spec"]["resourceAttributes"]
        resource = next(
            found
            for (_api, name), found in RESOURCES.items()
            if (found.group, name) == (given.get("group", ""), given["resource"])
        )
        about = Asked(
            given["verb"],
            resource,
            given.get("namespace", ""),
            given.get("name", ""),
            given.get("subresource", ""),
        )
        allowed = self.allows(about.verb, about.what)
        allowed = allowed and authorizers.refusal(user, about, {}, self.objects) is None
        return {**body, "metadata": {}, "status": {"allowed": allowed}}


def _kinds() -> list[tuple[tuple[str, str], tuple[str, str]]]:
    return [(key, (key[0], one.kind)) for key, one in RESOURCES.items()]


def _version(match: Any) -> str:
    return f"{match['group']}/{match['version']}" if match["group"] else str(match["version"])
