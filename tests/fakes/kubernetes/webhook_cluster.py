# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An API server that asks replicas of the webhook, through what stands for their Service."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import sys
import threading
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpu_cluster.webhook.shared import CONFIGURATIONS
from gpu_plugin._shared._cluster.machine.api import MISSING, ApiError
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.rate import Rate

from tests.fakes.kubernetes.administered import KINDS, Administered, StandInApi
from tests.fakes.kubernetes.genuine_api import GenuineApi
from tests.support import helper_process
from tests.support.paths import SOURCES
from tests.support.ports import reserve
from tests.support.waiting import LIMIT, eventually

Json = dict[str, Any]
NAME, SPACE = "gpu-node-webhook", "gpu-node"
SECRETS = f"/api/v1/namespaces/{SPACE}/secrets"
SECRET = f"{SECRETS}/{NAME}-tls"
DRA = "/apis/resource.k8s.io/v1"
PATCH = "application/json-patch+json"
SECONDS = 30  # the most that an API server waits for a webhook: a busy machine is no failure
RBAC = "rbac.authorization.k8s.io/v1"


def rule(group: str, resource: str, *verbs: str, names: tuple[str, ...] = ()) -> Json:
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **named}


# What files/kubernetes gives the webhook.
CLUSTER_RULES = [
    rule("resource.k8s.io", "resourceclaimtemplates", "get", "list", "create", "patch", "delete"),
    rule("resource.k8s.io", "resourceslices", "list", "watch"),
    rule("resource.k8s.io", "deviceclasses", "list"),
    rule("", "pods", "list"),
    rule("", "limitranges", "list"),
    rule("", "resourcequotas", "list"),
    rule(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        *("get", "patch"),
        names=(NAME,),
    ),
]
RULES = [rule("", "secrets", "get", "update", names=(f"{NAME}-tls", f"{NAME}-path"))]


class Balancer:
    """One address for the replicas, each connection to the next one that is there."""

    def __init__(self) -> None:
        self.backends: list[int] = []
        self._turn = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            if (server := self._connect()) is None:
                client.close()
                continue
            for one in (client, server):  # else each answer would wait for forty milliseconds
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=pair, daemon=True).start()

    def _connect(self) -> socket.socket | None:
        for _each in self.backends:
            self._turn += 1
            port = self.backends[self._turn % len(self.backends)]
            try:
                return socket.create_connection(("127.0.0.1", port), LIMIT)
            except OSError:
                continue
        return None


def _pump(source: socket.socket, sink: socket.socket) -> None:
    source.settimeout(None)
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


class Replica:
    """A process of ``gpu-cluster webhook``."""

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str) -> None:
        self.port, self.pages = reserve(self), reserve(self)
        self.log = log
        with log.open("ab") as stream:
            path = os.pathsep.join(map(str, SOURCES))
            self.process = helper_process.start(
                [
                    *(sys.executable, "-m", "gpu_cluster", "webhook"),
                    *("--listen", f"127.0.0.1:{self.port}"),
                    *("--metrics-address", f"127.0.0.1:{self.pages}"),
                    *("--kubeconfig", str(kubeconfig), "--namespace", SPACE),
                    *("--dns-names", "127.0.0.1", *arguments),
                ],
                stdout=stream,
                stderr=stream,
                # as the manifest has it
                env={**os.environ, "PYTHONPATH": path, "MALLOC_ARENA_MAX": "2"},
                ready=helper_process.executed,
            )

    def page(self, path: str) -> tuple[int, str]:
        """Return the status and the text of a page, 0 where there is no answer."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.pages}{path}", timeout=LIMIT
            ) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def wait(self) -> None:
        """Wait until it is ready."""
        eventually(lambda: self.page("/readyz"), (200, "ok\n"))

    def certificate(self) -> bytes:
        """Return what it serves."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT) as plain:
            context = ssl._create_unverified_context()
            with context.wrap_socket(plain) as channel:
                found = channel.getpeercert(binary_form=True)
        assert found is not None
        return found

    def status(self, path: str, body: bytes = b"{}") -> int:
        """Return what is answered to a body at a path."""
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=LIMIT, context=context
        )
        with contextlib.closing(connection):
            connection.request("POST", path, body)
            return connection.getresponse().status

    def stop(self) -> None:
        """Kill it."""
        self.process.kill()


class Cluster(Administered):
    """An API server with our classes' names, a webhook configuration and an account for pods."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.balancer, self._replicas, self._turns = Balancer(), list[Replica](), 0
        super().__init__(folder, *flags)
        try:
            self._fill()
        except BaseException:
            self.stop()
            raise

    def _fill(self) -> None:
        self.admin = Access(str(self.folder / "admin.conf"), Rate(-1))
        for space in ("default", SPACE):
            meta = {"name": "default", "namespace": space}
            if space != "default":
                self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
            self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        for of in ("tls", "path"):
            self.post(SECRETS, {"kind": "Secret", "metadata": {"name": f"{NAME}-{of}"}})
        self.post(CONFIGURATIONS, self.configuration())

    def stop(self) -> None:
        self.alone()
        self.balancer.stop()
        super().stop()

    def alone(self) -> None:
        """End all replicas."""
        self.balancer.backends.clear()
        for one in self._replicas:
            if one.process.poll() is None:
                one.stop()
        self._replicas.clear()

    def configuration(self, policy: str = "Fail") -> Json:
        """Return the webhook's configuration; ours has a Service where this has an address."""
        url = f"https://127.0.0.1:{self.balancer.port}"
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
        }
        hook = {
            "name": "hami.webhook.gpu.node",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": SECONDS,
            "failurePolicy": policy,
            "reinvocationPolicy": "IfNeeded",
            "clientConfig": {"url": url},
            "rules": [rule],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": NAME},
            "webhooks": [hook],
        }

    def post(self, path: str, body: Json, dry: bool = False) -> Json:
        query = {"dryRun": "All"} if dry else {}
        made: Json = self.admin.ask("posting", "POST", path, body, query=query)
        return made

    def remove(self, path: str, body: Json | None = None) -> None:
        """Remove an object, unless a controller was faster."""
        try:
            self.admin.ask("removing", "DELETE", path, body)
        except ApiError as error:
            if error.status != MISSING:
                raise

    def read(self, path: str) -> Json:
        found: Json = self.admin.ask("reading", "GET", path)
        return found

    def bundle(self) -> str:
        """Return the CA bundle that the API server has, as it is written."""
        found = self.read(f"{CONFIGURATIONS}/{NAME}")
        return str(found["webhooks"][0]["clientConfig"].get("caBundle", ""))

    def path(self) -> str:
        """Return the path that the API server asks at."""
        found = self.read(f"{CONFIGURATIONS}/{NAME}")
        return urlsplit(found["webhooks"][0]["clientConfig"]["url"]).path

    def policy(self, policy: str, seconds: int = SECONDS) -> None:
        """Set what happens where the webhook fails."""
        patch: Any = [
            {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": policy},
            {"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": seconds},
        ]
        self.configure(patch)

    def configure(self, patch: Any) -> None:
        """Change the configuration, and return once the API server heeds it."""
        self.admin.ask("patching", "PATCH", f"{CONFIGURATIONS}/{NAME}", patch, kind=PATCH)
        self._heeded()

    def _heeded(self) -> None:
        """Wait until a later configuration has its effect: the API server hears of them one after the other."""
        self._turns += 1
        name, labels = f"turn-{self._turns}.gpu.node", {"turn": str(self._turns)}
        rule = {**self.configuration()["webhooks"][0]["rules"][0], "resources": ["configmaps"]}
        hook = {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/nobody"},
            "objectSelector": {"matchLabels": labels},
            "rules": [rule],
        }
        kind = {key: self.configuration()[key] for key in ("apiVersion", "kind")}
        self.post(CONFIGURATIONS, {**kind, "metadata": {"name": name}, "webhooks": [hook]})
        one = {"kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}

        def asked() -> bool:
            try:
                self.post(KINDS["ConfigMap"].format("default"), one, dry=True)
            except ApiError as error:
                return name in str(error)
            return False

        eventually(asked)
        self.remove(f"{CONFIGURATIONS}/{name}")

    def pod(self, one: Json, space: str = "default", dry: bool = False) -> Json:
        """Create a pod of any name. ApiError."""
        body = {**one, "metadata": {**one["metadata"], "generateName": "p-"}}
        del body["metadata"]["name"]
        return self.post(f"/api/v1/namespaces/{space}/pods", body, dry)

    def refusal(self, one: Json, space: str = "default") -> ApiError:
        """Return why a pod is refused."""
        try:
            made = self.pod(one, space)
        except ApiError as error:
            return error
        raise AssertionError(json.dumps(made))

    def templates(self, space: str = "default") -> dict[str, Json]:
        found = self.read(f"{DRA}/namespaces/{space}/resourceclaimtemplates")["items"]
        return {one["metadata"]["name"]: one for one in found}

    def least(self) -> Path:
        """Return the access of the webhook's ServiceAccount, with no more than it needs."""
        account = {"name": NAME, "namespace": SPACE}
        self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        subject = [{"kind": "ServiceAccount", **account}]
        for kind, space, rules in (("ClusterRole", None, CLUSTER_RULES), ("Role", SPACE, RULES)):
            meta = {"name": NAME, **({"namespace": space} if space else {})}
            role = {"apiVersion": RBAC, "kind": kind, "metadata": meta}
            self.create({**role, "rules": rules})
            to = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME}
            self.create({**role, "kind": f"{kind}Binding", "roleRef": to, "subjects": subject})
        self.account(NAME, SPACE).close()
        return self.folder / f"{NAME}.conf"

    def replica(self, name: str, *arguments: str, kubeconfig: Path | None = None) -> Replica:
        """Start a replica behind the Service."""
        own = kubeconfig or self.folder / "admin.conf"
        made = Replica(own, self.folder / f"{name}.log", *arguments)
        self._replicas.append(made)
        self.balancer.backends.append(made.port)
        return made


class GenuineCluster(Cluster, GenuineApi):
    """Of a genuine API server."""


class StandInCluster(Cluster, StandInApi):
    """Of the stand-in."""


CLUSTERS: Mapping[str, type[Cluster]] = {"stand-in": StandInCluster, "genuine": GenuineCluster}


class Load:
    """Pods that are created all the time: how many were, and what failed."""

    def __init__(self, cluster: Cluster, one: Json) -> None:
        self.created, self.failed = 0, list[str]()
        self._over = threading.Event()
        self._cluster, self._pod = cluster, one
        self._thread = threading.Thread(target=self._create)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def more(self, pods: int = 20) -> None:
        """Wait until so many more were created."""
        until = self.created + pods
        eventually(lambda: self.created >= until or self.failed)

    def _create(self) -> None:
        while not self._over.wait(0.02):
            try:
                assert "resourceClaims" in self._cluster.pod(self._pod)["spec"]
                self.created += 1
            except (ApiError, AssertionError) as error:
                self.failed.append(f"{error!r}: {error}")
