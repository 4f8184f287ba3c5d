# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's name in its cluster, which need not be the host's."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.cluster import kubeconfig
from gpu_plugin.tools.process import RestartNeeded

from tests.fakes.clock import Clock
from tests.fakes.kubernetes.certificates import Authority

NAME = "ip-10-0-3-7.eu-central-1.compute.internal"


def written(folder: Path, user: Any) -> str:
    path = folder / "kubelet.conf"
    path.write_text(json.dumps({"users": [{"name": "default-auth", "user": user}]}))
    return str(path)


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    return Authority(tmp_path).identity(f"system:node:{NAME}", "system:nodes")


def test_it_is_the_one_that_the_kubelet_has_a_certificate_for(tmp_path: Path, pem: Path) -> None:
    inside = {"client-certificate-data": base64.b64encode(pem.read_bytes()).decode()}
    for user in (inside, {"client-certificate": str(pem)}, {"client-certificate": pem.name}):
        assert kubeconfig.node_name("", written(tmp_path, user)) == NAME


def test_it_is_the_one_that_is_given(tmp_path: Path, pem: Path) -> None:
    path = written(tmp_path, {"client-certificate": str(pem)})
    assert kubeconfig.node_name("node-1", path) == "node-1"


def test_it_is_the_hosts_where_no_certificate_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(kubeconfig, "KUBECONFIGS", (str(tmp_path / "none"),))
    other = Authority(tmp_path).identity("admin")
    users = (
        None,
        {"token": "x"},
        {"client-certificate": str(other)},
        {"client-certificate": str(tmp_path / "gone.pem")},
        {"client-certificate-data": "###"},
    )
    paths = ["", str(tmp_path / "gone"), *(written(tmp_path, user) for user in users)]
    host = socket.gethostname().lower()
    assert [kubeconfig.node_name("", path) for path in paths] == [host] * len(paths)


def test_a_process_starts_anew_once_the_kubelet_has_another_name(
    tmp_path: Path, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(kubeconfig, "time", clock)
    path = written(tmp_path, {"client-certificate": str(pem)})
    same = kubeconfig.NameWatch("", path, NAME)
    same.check("403 Forbidden")
    renamed = Authority(tmp_path).identity("system:node:gx5b", "system:nodes")
    written(tmp_path, {"client-certificate": str(renamed)})
    same.check("403 Forbidden")  # not again within a minute
    clock.sleep(61)
    same.check("")  # nothing is wrong
    kubeconfig.NameWatch(NAME, path, NAME).check("403 Forbidden")  # the user has chosen it
    with pytest.raises(RestartNeeded, match="the kubelet's certificate is of node gx5b"):
        same.check("403 Forbidden")


def test_a_certificate_that_can_not_be_read_is_no_other_name(tmp_path: Path) -> None:
    path = written(tmp_path, {"client-certificate": str(tmp_path / "gone.pem")})
    kubeconfig.NameWatch("", path, NAME).check("403 Forbidden")
