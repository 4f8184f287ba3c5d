# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is believed on the way to a cluster and in it, and is told where anybody could take its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.client import KubernetesApi
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.capability import (
    ClusterObjectsCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.trust import (
    exposed,
    images,
    unpinned,
)
from ansible_collections.gpu.node.plugins.modules import drain
from gpu_plugin.cluster.access import Access

from tests.fakes.library.in_process import said_by

Json = dict[str, Any]
DIGEST = "@sha256:" + "0" * 64
SERVER = "https://api.example.com:6443"


def kubeconfig(folder: Path, **cluster: Any) -> str:
    path = folder / "admin.conf"
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": SERVER, **cluster}}],
        "users": [{"name": "me", "user": {"token": "hunter2"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
    path.write_text(json.dumps(whole))
    return str(path)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({}, ""),
        ({"server": "http://127.0.0.1:8001"}, ""),
        ({"server": "http://[::1]:8001"}, ""),
        ({"server": "http://localhost:8001", "insecure-skip-tls-verify": True}, ""),
        ({"server": "http://127.0.0.1.example.com"}, "without TLS"),
        (
            {"server": "http://me:hunter2@10.0.0.1:8080"},
            "http://10.0.0.1:8080 is asked without TLS",
        ),
        ({"insecure-skip-tls-verify": True}, f"{SERVER} is asked without checking its cert"),
    ],
)
def test_a_server_that_anybody_on_the_way_can_stand_for_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cluster: Json, said: str
) -> None:
    path = kubeconfig(tmp_path, **cluster)
    found = KubernetesApi(path).warnings
    assert said in "".join(found)
    assert bool(found) == bool(said)
    Access(path).connect()  # the daemon's way
    logged = capsys.readouterr().err
    assert said in logged
    assert bool(logged) == bool(said)
    assert "hunter2" not in f"{found}{logged}"


def test_the_daemon_tells_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    access = Access(kubeconfig(tmp_path, server="http://10.0.0.1"))
    for name in ("one", "two"):
        kubeconfig(tmp_path, server="http://10.0.0.1", **{"tls-server-name": name})
        access.connect()
    assert capsys.readouterr().err.count("without TLS") == 1


@pytest.mark.parametrize(
    ("image", "told"),
    [("pause:3.10", True), ("r.example:5000/a/b", True), (f"pause{DIGEST}", False), ("", False)],
)
def test_an_image_without_a_digest_is_told(image: str, told: bool) -> None:
    assert bool(unpinned(image, "gpu_nodes_pod_image")) == told
    assert unpinned(image, "gpu_nodes_pod_image").startswith(
        f"gpu_nodes_pod_image: '{image}'" * told
    )


def test_images_are_found_wherever_an_object_has_containers() -> None:
    pod: Json = {"containers": [{"image": "a"}], "initContainers": [{"image": "b"}, {"name": "x"}]}
    wrapped = {"kind": "Deployment", "spec": {"template": {"spec": pod}}, "data": {"image": "no"}}
    assert list(images(wrapped)) == ["a", "b"]
    assert list(images({"kind": "ConfigMap", "data": {"containers": "a"}})) == []
    assert exposed("", verifies=False).startswith(" is asked")


class Server:
    """One that has no kind of object, and takes each."""

    server = named = "here"
    warnings = ("it is asked without TLS",)

    def ask(self, _doing: str, method: str, path: str, body: Any = None, **_how: Any) -> Json:
        if path == "/apis/apps/v1":
            return {"resources": [{"name": "deployments", "kind": "Deployment"}]}
        return dict(body) if method == "PATCH" else {"kind": "Deployment"}


@pytest.mark.parametrize(("state", "count"), [("present", 2), ("absent", 1)])
def test_objects_are_told_of_with_their_images(state: str, count: int) -> None:
    pod = {"containers": [{"image": "webhook:1"}, {"image": f"other{DIGEST}"}]}
    meta = {"name": "a", "namespace": "b"}
    one = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta}
    params = {"objects": [{**one, "spec": {"template": {"spec": pod}}}], "state": state}
    params |= {"prune": [], "label": "", "field_manager": "x", "force": False}
    params |= {"kubeconfig": "", "context": ""}
    found = ClusterObjectsCapability(params, lambda *_: Server())  # type: ignore[arg-type,return-value]
    warnings = found.plan(()).warnings
    assert len(warnings) == count
    assert ("Deployment b/a: fractions_image: 'webhook:1'" in warnings[-1]) == (count == 2)


@pytest.mark.parametrize("text", ["yaml", "json"])
def test_a_kubeconfig_that_is_no_path_is_repeated_nowhere(tmp_path: Path, text: str) -> None:
    whole = json.loads(Path(kubeconfig(tmp_path)).read_text())
    whole["users"][0]["user"] |= {"client-key-data": "S0VZREFUQQ=="}
    given = yaml.safe_dump(whole) if text == "yaml" else json.dumps(whole)
    options = {"node": "n1", "kubeconfig": given}
    said = said_by(drain, options, tmp_path)
    assert "kubeconfig (gpu_nodes_kubeconfig): this is a text, and no path" in said
    assert "hunter2" not in said
    assert "S0VZREFUQQ" not in said
