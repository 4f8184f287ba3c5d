# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A genuine API server with its etcd, where KUBE_BIN names a folder with both."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import urllib3
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.fakes.kubernetes.administered import ADMINS, KINDS, Administered
from tests.fakes.kubernetes.certificates import Authority
from tests.support import helper_process
from tests.support.ports import reserve
from tests.support.waiting import eventually


def found(name: str) -> Path:
    """Return where a program is. Skips the test where it can't be had."""
    folder = os.environ.get("KUBE_BIN", "")
    path = shutil.which(name, path=folder)
    if path is None:
        pytest.skip(f"KUBE_BIN names no folder with a genuine {name}: KUBE_BIN={folder!r}")
    return Path(path)


class GenuineApi(Administered):
    """``more`` are flags of kube-apiserver."""

    def __init__(self, folder: Path, *more: str) -> None:
        super().__init__(folder)
        self.port = reserve(self)
        self._more = more
        self.authority = Authority(folder)
        self.cluster = {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority": str(self.authority.ca),
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pair, self._key = self.authority.identity("kube-apiserver"), folder / "accounts.key"
        words = ["openssl", "genrsa", "-out", self._key, "2048"]
        subprocess.run(words, check=True, capture_output=True)
        store, peer = (f"http://127.0.0.1:{reserve(self)}" for _each in range(2))
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
        self.admin = self.access("admin", ADMINS)

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

    def forget(self) -> None:
        """Let all versions but the present one be forgotten, as after some minutes."""
        version = self.get("Namespace")["metadata"]["resourceVersion"]
        urllib3.request("POST", f"{self._store}/v3/kv/compaction", json={"revision": version})
        self._server.kill()
        self._serve()

    def identity(self, name: str, group: str) -> Mapping[str, str]:
        pair = str(self.authority.identity(name, group))
        return {"client-certificate": pair, "client-key": pair}

    def token(self, name: str, namespace: str) -> str:
        path = f"{KINDS['ServiceAccount'].format(namespace)}/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.admin.ask("asking for a token", "POST", path, request)
        return str(answer["status"]["token"])

    def start(self, program: Path, *words: str) -> subprocess.Popen[bytes]:
        """Start a program that ends with the server."""
        with (self.folder / f"{program.name}.log").open("ab") as log:
            process = helper_process.start(
                [str(program), *words], stdout=log, stderr=log, ready=helper_process.executed
            )
        self._processes.append(process)
        return process
