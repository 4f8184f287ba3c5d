# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is refused before anything is changed, and what the user is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.client import KubernetesApi

from tests.fakes.kubernetes.standin_cluster import DROP, Cluster

Drain = Callable[..., dict[str, Any]]


def test_an_unknown_node_is_named_with_those_near_it(cluster: Cluster, drain: Drain) -> None:
    refused = drain(node="nod-1")
    assert "node (gpu_nodes_node_name): 'nod-1' is not valid" in refused["msg"]
    assert f"expected one of its 2 nodes of http://127.0.0.1:{cluster.port}" in refused["msg"]
    assert "near it are node-1, node-2" in refused["msg"]
    assert not refused["changed"]


def test_a_node_of_a_longer_or_shorter_name_is_near(cluster: Cluster, drain: Drain) -> None:
    cluster.add_node("gpu-7")
    assert "near it are gpu-7" in drain(node="GPU-7.cluster.example.com")["msg"]


def test_an_unknown_node_is_named_where_the_others_may_not_be_listed(
    cluster: Cluster, drain: Drain
) -> None:
    cluster.allows = lambda verb, resource: (verb, resource) != ("list", "nodes")
    assert "'nod-1' is not valid" in drain(node="nod-1")["msg"]


@pytest.mark.parametrize(
    ("state", "right", "rule"),
    [
        ("cordoned", ("get", "nodes"), '{apiGroups: [""], resources: [nodes], verbs: [get]}'),
        ("uncordoned", ("patch", "nodes"), '{apiGroups: [""], resources: [nodes], verbs: [patch]}'),
        ("drained", ("list", "pods"), '{apiGroups: [""], resources: [pods], verbs: [list]}'),
        (
            "drained",
            ("create", "pods/eviction"),
            '{apiGroups: [""], resources: [pods/eviction], verbs: [create]}',
        ),
    ],
)
def test_a_missing_right_is_refused_with_its_rule(
    cluster: Cluster, drain: Drain, state: str, right: tuple[str, str], rule: str
) -> None:
    cluster.allows = lambda verb, resource: (verb, resource) != right
    refused = drain(state=state)
    assert refused["missing_rights"] == [" ".join(right)]
    assert rule in refused["msg"]
    assert str(cluster.kubeconfig) in refused["msg"]
    assert cluster.changes() == []


def test_all_missing_rights_are_named_at_once(cluster: Cluster, drain: Drain) -> None:
    cluster.allows = lambda _verb, resource: "review" in resource
    assert drain()["missing_rights"] == [
        "get nodes",
        "patch nodes",
        "list pods",
        "create pods/eviction",
    ]


def test_the_right_to_read_claims_is_asked_for_where_there_are_some(
    cluster: Cluster, drain: Drain
) -> None:
    cluster.allows = lambda _verb, resource: resource != "resourceclaims"
    cluster.add_pod("train", gpus=1)
    assert drain(check=True)["changed"]
    claim = [{"name": "x", "resourceClaimName": "mine"}]
    cluster.add_pod("claiming", spec={"resourceClaims": claim})
    refused = drain()
    assert refused["missing_rights"] == ["get resourceclaims"]
    assert "default/claiming has resource claims" in refused["msg"]
    assert cluster.changes() == []


def test_the_right_to_read_daemonsets_is_asked_for_where_they_have_gpus(
    cluster: Cluster, drain: Drain
) -> None:
    cluster.allows = lambda _verb, resource: resource != "daemonsets"
    cluster.add_pod("train", gpus=1)
    cluster.add_pod("kube-system/proxy", controller="DaemonSet")
    assert drain(check=True)["changed"]
    cluster.add_pod("kube-system/exporter", controller="DaemonSet", gpus=1)
    refused = drain()
    assert refused["missing_rights"] == ["get daemonsets"]
    assert '- {apiGroups: ["apps"], resources: [daemonsets], verbs: [get]}' in refused["msg"]
    assert cluster.changes() == []


def test_a_right_that_is_taken_away_meanwhile_is_named(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1)

    def take(method: str, _path: str) -> None:
        if method == "PATCH":
            cluster.allows = lambda _verb, resource: resource != "pods/eviction"

    cluster.before = take
    refused = drain()
    assert refused["missing_rights"] == ["create pods/eviction"]
    assert refused["changed"]


def test_a_node_that_may_not_be_changed_any_more_is_named_so(
    cluster: Cluster, drain: Drain
) -> None:
    def take(method: str, _path: str) -> None:
        if method == "PATCH":
            cluster.allows = lambda verb, _resource: verb != "patch"

    cluster.before = take
    refused = drain(state="cordoned")
    assert refused["missing_rights"] == ["patch nodes"]
    assert not refused["changed"]


def test_a_server_that_stays_away_in_the_middle_is_said(cluster: Cluster, drain: Drain) -> None:
    cluster.faults += [("PATCH", 503)] * 100
    failed = drain(state="cordoned", timeout=1)
    assert "503 by order of the test" in failed["msg"]
    assert "run again, which goes on here" in failed["msg"]


def test_a_server_that_is_away_is_refused_at_once(cluster: Cluster, drain: Drain) -> None:
    refused = drain(context="nowhere")
    assert "nothing was changed, since http://127.0.0.1:1 can't be asked" in refused["msg"]
    assert "gpu_nodes_kubeconfig or gpu_nodes_context" in refused["msg"]


@pytest.mark.parametrize("state", ["drained", "cordoned", "uncordoned"])
def test_a_change_that_has_begun_waits_for_a_server_that_does_not_answer(
    cluster: Cluster, drain: Drain, state: str
) -> None:
    cluster.faults += [("POST", 503), ("POST", DROP), ("GET", 503)]
    changed = drain(state=state, patient=True)
    assert not changed.get("failed"), changed
    assert not cluster.faults
    cluster.faults += [("POST", 503)]
    refused = drain(state=state, patient=True, check=True)
    assert "nothing was changed, since" in refused["msg"]
    assert drain(state=state, context="nowhere", patient=True, timeout=1)["failed"]


def test_a_token_that_is_not_taken_is_named_so(cluster: Cluster, drain: Drain) -> None:
    access = cluster.access()
    access["users"][0]["user"]["token"] = "bad-secret"
    cluster.kubeconfig.write_text(json.dumps(access))
    refused = drain()
    assert "401 Unauthorized" in refused["msg"]
    assert "auth whoami" in refused["msg"]
    assert "bad-secret" not in json.dumps(refused)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "can't be read on the controller: No such file or directory"),
        ("", "can't be used"),
        ("a: [", "can't be used"),
        ("[]", "can't be used"),
    ],
)
def test_a_kubeconfig_that_is_none_is_refused(
    cluster: Cluster, drain: Drain, text: str | None, said: str
) -> None:
    path = cluster.kubeconfig.with_name("none.conf")
    if text is not None:
        path.write_text(text)
    refused = drain(kubeconfig=str(path))
    assert f"kubeconfig (gpu_nodes_kubeconfig): '{path}' {said}" in refused["msg"]


def test_a_context_that_is_not_there_is_named(cluster: Cluster, drain: Drain) -> None:
    refused = drain(context="prod")
    assert "prod" in refused["msg"]
    assert "config get-contexts" in refused["msg"]


def test_kubeconfigs_are_merged_as_kubectl_merges_them(
    cluster: Cluster, drain: Drain, tmp_path: Path
) -> None:
    first = tmp_path / "first.conf"
    first.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "here"}))
    named = f"{first}:{tmp_path}/missing.conf:{cluster.kubeconfig}"
    assert drain(kubeconfig=named, state="cordoned")["changed"]


def test_without_a_kubeconfig_it_is_found_as_kubectl_finds_it(
    cluster: Cluster, drain: Drain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert "'~/.kube/config' can't be read" in drain(kubeconfig="", state="cordoned")["msg"]
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    assert drain(kubeconfig="", state="cordoned")["changed"]
    monkeypatch.delenv("KUBECONFIG")
    (tmp_path / ".kube").mkdir()
    cluster.kubeconfig.rename(tmp_path / ".kube/config")
    assert not drain(kubeconfig="", state="cordoned")["changed"]
    assert drain(kubeconfig="~/.kube/config", state="uncordoned")["changed"]


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("timeout", 0, "timeout (gpu_nodes_drain_timeout): 0 is not valid: expected 1 or more"),
        ("retries", -1, "gpu_nodes_drain_retries"),
        ("grace_period", -2, "gpu_nodes_drain_grace_period"),
        ("wait_for_jobs", -1, "wait_for_jobs (gpu_nodes_wait_for_jobs)"),
        ("node", "", "gpu_nodes_node_name"),
        ("failure", "it broke", "state is drained"),
    ],
)
def test_a_bad_value_is_named_by_its_variable(
    cluster: Cluster, drain: Drain, option: str, value: object, named: str
) -> None:
    assert named in drain(**{option: value})["msg"]
    assert cluster.requests == []


def test_an_answer_of_another_shape_is_no_traceback(cluster: Cluster, drain: Drain) -> None:
    del cluster.nodes["node-1"]["metadata"]["resourceVersion"]
    assert "an answer of the API server was not understood" in drain()["msg"]


def test_without_the_client_the_way_to_install_it_is_said(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(NodeError) as caught:
        KubernetesApi(str(cluster.kubeconfig))
    assert f"Next step: {sys.executable} -m pip install kubernetes" in str(caught.value)


def test_the_module_is_imported_without_the_client() -> None:
    code = "import sys; sys.modules['kubernetes'] = None; import "
    module = "ansible_collections.gpu.node.plugins.modules.drain"
    subprocess.run([sys.executable, "-c", code + module], check=True, env=dict(os.environ))
