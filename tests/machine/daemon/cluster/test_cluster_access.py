# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The access to the API: a kubeconfig, the files that it names, the programs that it runs."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.cluster import kubeconfig
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.api import NodeApi
from kubernetes.config import incluster_config

from tests.fakes.kubernetes.certificates import Authority
from tests.fakes.kubernetes.standin_api import NODE, Api


def test_a_kubeconfig_that_is_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(kubeconfig, "KUBECONFIGS", (str(tmp_path / "a"), str(tmp_path / "b")))
    with pytest.raises(ApiError, match=r"none of .*/a, .*/b is there.*--kubeconfig"):
        kubeconfig.find("")
    (tmp_path / "b").write_text("{}")
    assert kubeconfig.find("") == str(tmp_path / "b")
    with pytest.raises(ApiError, match="/c is not there"):
        kubeconfig.find(str(tmp_path / "c"))
    with pytest.raises(ApiError, match="reading the kubeconfig"):
        Access(str(tmp_path / "b")).connect()


PROGRAM = """#!/bin/sh
echo x >>{0}/ran
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
  "status": {{"token": "'$(cat {0}/token)'"{1}}}}}'
"""


def with_program(api: Api, expiry: str = "") -> Path:
    """Let a program give the token, which counts how often it is run."""
    folder = api.kubeconfig.parent
    program = folder / "program"
    program.write_text(PROGRAM.format(folder, expiry))
    program.chmod(0o755)
    (folder / "token").write_text("good")
    api.kubeconfig.chmod(0o600)
    how = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}
    config = json.loads(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"exec": how}
    api.kubeconfig.write_text(json.dumps(config))
    return folder


def test_the_kubeconfig_is_read_once_and_again_where_it_changed(api: Api, node: NodeApi) -> None:
    folder = with_program(api)
    for _each in range(5):
        node.read()
    assert (folder / "ran").read_text() == "x\n"
    os.utime(api.kubeconfig, (1, 1))
    node.read()
    node.read()
    assert (folder / "ran").read_text() == "x\n" * 2
    api.token = "new"
    (folder / "token").write_text("new")
    with pytest.raises(ApiError, match="401"):
        node.read()
    assert node.read()  # access is read anew where it is refused
    assert (folder / "ran").read_text() == "x\n" * 3


def test_a_token_that_runs_out_is_renewed_before_it_is_refused(api: Api, node: NodeApi) -> None:
    folder = with_program(api, ', "expirationTimestamp": "2001-01-01T00:00:00Z"')
    node.read()
    before = (folder / "ran").read_text()
    (folder / "token").write_text("new")
    api.token = "new"
    assert node.read()
    assert (folder / "ran").read_text() > before


def test_a_token_in_a_file_of_its_own_is_taken_when_it_changes(api: Api, node: NodeApi) -> None:
    token = api.kubeconfig.parent / "token"
    token.write_text("good")
    config = json.loads(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": "token"}
    api.kubeconfig.write_text(json.dumps(config))
    assert node.read()
    api.token = "new-one"
    token.write_text("new-one")
    assert node.read()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[Api, Authority]]:
    """An API that is spoken with by TLS and certificates, as a kubelet does."""
    authority = Authority(tmp_path)
    made = Api(tmp_path, tls=authority.server("127.0.0.1"))
    authority.write_kubeconfig(made.kubeconfig)
    yield made, authority
    made.stop()


def test_one_handshake_serves_all_requests_until_the_certificate_is_renewed(
    secure: tuple[Api, Authority],
) -> None:
    api, authority = secure
    node = NodeApi(Access(str(api.kubeconfig)), NODE)
    for _each in range(5):
        node.read()
    assert (api.connections, api.clients) == (1, ["first"])
    authority.renew("second")
    for _each in range(5):
        node.read()
    assert (api.connections, api.clients) == (2, ["first", "second"])
    node.close()


def test_a_server_of_another_authority_is_not_spoken_with(
    secure: tuple[Api, Authority], tmp_path: Path
) -> None:
    api, authority = secure
    (tmp_path / "other").mkdir()
    authority.ca.write_bytes(Authority(tmp_path / "other").ca.read_bytes())
    with pytest.raises(ApiError, match="certificate verify failed"):
        NodeApi(Access(str(api.kubeconfig)), NODE).read()
    assert api.requests == []


def test_a_pods_own_access_is_used_and_its_token_renewed(
    secure: tuple[Api, Authority], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api, authority = secure
    assert api.tls is not None
    api.tls.verify_mode = ssl.CERT_NONE
    token = tmp_path / "token"
    token.write_text("good")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.ca))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
    node = NodeApi(Access(""), NODE)
    assert node.read()
    api.token = "new"
    token.write_text("new")
    with pytest.raises(ApiError, match="401"):
        node.read()
    assert node.read()
    node.close()


def test_the_kubernetes_client_is_loaded_when_something_is_asked() -> None:
    services = "gpu_plugin.daemon, gpu_plugin.dra.service, gpu_plugin.labels.service"
    code = f"import sys, {services}; sys.exit('kubernetes' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
