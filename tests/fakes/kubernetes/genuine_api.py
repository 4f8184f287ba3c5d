# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A genuine API server with its etcd, where KUBE_BIN names a folder with both, or etcd is installed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import urllib3
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.errors import ApiError

from tests.fakes.kubernetes.certificates import Authority
from tests.support.waiting import eventually

Json = dict[str, Any]
KINDS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Event": "/api/v1/namespaces/{}/events",
    "NodeFeature": "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{}/nodefeatures",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
RBAC, POLICIES = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
KINDS |= {kind: f"{RBAC}/{kind.lower()}s" for kind in ("ClusterRole", "ClusterRoleBinding")}
KINDS |= {kind: f"{RBAC}/namespaces/{{}}/{kind.lower()}s" for kind in ("Role", "RoleBinding")}
for group, kinds in {
    "api/v1": ("Pod", "Secret", "Service", "ConfigMap"),
    "apis/apps/v1": ("Deployment",),
    "apis/policy/v1": ("PodDisruptionBudget",),
    "apis/resource.k8s.io/v1": ("ResourceClaim", "ResourceClaimTemplate"),
}.items():
    KINDS |= {kind: f"/{group}/namespaces/{{}}/{kind.lower()}s" for kind in kinds}
KINDS |= {"DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses"}
KINDS |= {"ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices"}
KINDS |= {"MutatingWebhookConfiguration": f"{POLICIES}/mutatingwebhookconfigurations"}
KINDS["ValidatingAdmissionPolicy"] = f"{POLICIES}/validatingadmissionpolicies"
KINDS["ValidatingAdmissionPolicyBinding"] = f"{POLICIES}/validatingadmissionpolicybindings"


def found(name: str) -> Path:
    """Return where a program is. Skips the test where it can't be had."""
    folder = os.environ.get("KUBE_BIN", "")
    path = shutil.which(name, path=folder) or shutil.which(name)
    if not folder or path is None:
        pytest.skip(f"KUBE_BIN names no folder with {name}")
    return Path(path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class GenuineApi:
    """``admin`` may do anything; ``kubeconfig()`` gives others their access."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.folder, self.port = folder, free_port()
        self._more = more
        self.authority = Authority(folder)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pair, self._key = self.authority.identity("kube-apiserver"), folder / "accounts.key"
        words = ["openssl", "genrsa", "-out", self._key, "2048"]
        subprocess.run(words, check=True, capture_output=True)
        store, peer = (f"http://127.0.0.1:{free_port()}" for _each in range(2))
        self._store = store
        urls = (f"--{kind}-client-urls={store}" for kind in ("listen", "advertise"))
        try:
            own = (f"--data-dir={folder}/etcd", "--unsafe-no-fsync", f"--listen-peer-urls={peer}")
            self.start(found("etcd"), *own, *urls)
            self._serve()
        except BaseException:
            self.stop()
            raise

    def _serve(self) -> None:
        """Start the API server, and wait until it is ready."""
        pair, key = self._pair, self._key
        self._server = self.start(
            found("kube-apiserver"),
            f"--etcd-servers={self._store}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={pair}",
            f"--tls-private-key-file={pair}",
            f"--client-ca-file={self.authority.ca}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://here",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--cert-dir={self.folder}/made",
            *self._more,
        )
        self.admin = self.access("admin", "system:masters")

        def ready() -> bool:
            with contextlib.suppress(ApiError):
                return bool(self.get("Namespace", "default"))
            assert self._server.poll() is None, (self.folder / "kube-apiserver.log").read_text()[
                -2000:
            ]
            return False

        eventually(ready)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def forget(self) -> None:
        """Let all versions but the present one be forgotten, as after some minutes."""
        version = self.get("Namespace")["metadata"]["resourceVersion"]
        urllib3.request("POST", f"{self._store}/v3/kv/compaction", json={"revision": version})
        self._server.kill()
        self._server.wait()
        self._serve()

    def access(self, name: str, group: str) -> Access:
        """Return the access of somebody with a certificate of this name, in this group."""
        pair = str(self.authority.identity(name, group))
        user = {"client-certificate": pair, "client-key": pair}
        return Access(str(self.kubeconfig(name.replace(":", "-"), user)))

    def account(self, name: str, namespace: str) -> Access:
        """Return the access of a ServiceAccount, by a token of its own."""
        return Access(str(self.kubeconfig(name, {"token": self.token(name, namespace)})))

    def token(self, name: str, namespace: str) -> str:
        """Return a token of a ServiceAccount."""
        path = f"{KINDS['ServiceAccount'].format(namespace)}/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.admin.ask("asking for a token", "POST", path, request)
        return str(answer["status"]["token"])

    def kubeconfig(self, name: str, user: Mapping[str, str]) -> Path:
        cluster = {"server": f"https://127.0.0.1:{self.port}"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [
                {
                    "name": "here",
                    "cluster": {**cluster, "certificate-authority": str(self.authority.ca)},
                }
            ],
            "users": [{"name": name, "user": dict(user)}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": name}}],
        }
        path = self.folder / f"{name}.conf"
        path.write_text(json.dumps(config))
        return path

    def create(self, one: Json) -> Json:
        """Create an object, or return the one that is there."""
        meta = one["metadata"]
        path = KINDS[one["kind"]].format(meta.get("namespace", ""))
        try:
            made: Json = self.admin.ask(f"creating {meta['name']}", "POST", path, one)
        except ApiError as error:
            if error.status != 409:
                raise
            made = self.get(one["kind"], meta["name"], meta.get("namespace", ""))
        return made

    def get(self, kind: str, name: str = "", namespace: str = "") -> Json:
        """Return an object, or a list where no name is given."""
        path = "/".join(filter(None, (KINDS[kind].format(namespace).rstrip("/"), name)))
        answer: Json = self.admin.ask(f"reading {kind}", "GET", path)
        return answer

    def start(self, program: Path, *words: str) -> subprocess.Popen[bytes]:
        """Start a program that ends with the server."""
        with (self.folder / f"{program.name}.log").open("ab") as log:
            process = subprocess.Popen([str(program), *words], stdout=log, stderr=log)
        self._processes.append(process)
        return process
