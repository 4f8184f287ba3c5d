# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The rights that we hand out for node labels: enough for the one node, and for no other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.errors import ApiError
from gpu_plugin.labels.api import NodeApi
from gpu_plugin.labels.feature import NodeFeature
from gpu_plugin.labels.health.reporter import Reporter
from gpu_plugin.labels.owned import Change

from tests.fakes.kubernetes.standin_api import EVENTS, NODE, Api
from tests.support.paths import REPOSITORY

TEXT = (REPOSITORY / "files/kubernetes/node-labels-rbac.yaml").read_text()
OBJECTS: list[dict[str, Any]] = yaml.safe_load(TEXT.replace("NODE", NODE))["items"]
ROLES = [one for one in OBJECTS if one["kind"] in ("Role", "ClusterRole")]
(FEATURE,) = [one for one in OBJECTS if one["kind"] == "NodeFeature"]
NAMESPACE = FEATURE["metadata"]["namespace"]
FOLDER = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"
PLACE = f"{FOLDER}/{FEATURE['metadata']['name']}"
VERBS = {"PATCH": "patch", "PUT": "update", "POST": "create", "DELETE": "delete", "WATCH": "watch"}


def asked(method: str, path: str) -> tuple[str, str, str, str, str]:
    """Return what Kubernetes' authorizer sees: verb, API group, namespace, resource and name."""
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    if rest[0] == "nodes" and not name:
        name = NODE  # of the field selector, without which the stand-in refuses a list
    verb = VERBS.get(method) or ("get" if len(rest) > 1 else "list")
    return verb, group, namespace, "/".join([rest[0], *rest[2:]]), name


def allows(method: str, path: str) -> bool:
    """Tell whether the manifest's roles allow a request."""
    verb, group, namespace, resource, name = asked(method, path)
    return any(
        verb in rule["verbs"]
        and group in rule["apiGroups"]
        and resource in rule["resources"]
        and ("resourceNames" not in rule or name in rule["resourceNames"])
        for role in ROLES
        for rule in role["rules"]
        if role["kind"] == "ClusterRole" or role["metadata"]["namespace"] == namespace
    )


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path)
    made.allows = allows
    meta = {**FEATURE["metadata"], "resourceVersion": "1"}
    made.objects[PLACE] = {**FEATURE, "metadata": meta}
    yield made
    made.stop()


@pytest.mark.attack("labels-of-other-nodes")
def test_the_role_suffices_for_all_that_is_asked_of_the_api(api: Api, tmp_path: Path) -> None:
    now = [2_000_000_000.0]
    access = Access(str(api.kubeconfig))
    node, feature = NodeApi(access, NODE), NodeFeature(access, NODE, NAMESPACE)
    version = node.read().version
    api.set(example_com__a="b")
    _begun, first = itertools.islice(node.follow(version, 60), 2)
    assert first.node is not None
    assert first.node.labels["example.com/a"] == "b"
    node.write(Change({"nvidia.com/gpu.count": "2"}, {}))
    assert feature.write({"nvidia.com/gpu.count": "2"})
    assert not feature.write({"nvidia.com/gpu.count": "2"})
    assert api.features[PLACE]["spec"]["labels"] == {"nvidia.com/gpu.count": "2"}
    feature.remove()
    reporter = Reporter(NODE, tmp_path / "told.json", lambda: access, lambda: now[0])
    for number in range(3):  # sick, well, and sick again
        now[0] += 100
        health = [{"gpu": "GPU-0", "reason": "XID 79"}] * (number != 1)
        assert reporter.keep({"health": health}, told=True, condition=True) == {}
    assert [one["count"] for one in api.events] == [2, 1]
    assert api.conditions()["GPUHealthy"]["status"] == "False"
    with pytest.raises(ApiError, match=r"403.*make this object .*node-labels-rbac\.yaml"):
        feature.write({"nvidia.com/gpu.count": "2"})  # the object is ours to make
    api.requests.pop()
    node.close()
    needed = {
        (verb, kind) for verb, _group, _where, kind, _name in (asked(*one) for one in api.requests)
    }
    rules = [rule for role in ROLES for rule in role["rules"]]
    given = {(verb, kind) for one in rules for verb in one["verbs"] for kind in one["resources"]}
    assert given == needed  # and nothing beyond it


@pytest.mark.attack("labels-of-other-nodes")
def test_one_nodes_access_labels_no_other(api: Api) -> None:
    access = Access(str(api.kubeconfig))  # with what was found on node-1
    thief, taken = NodeApi(access, "node-2"), NodeFeature(access, "node-2", NAMESPACE)
    before = dict(api.features)
    with pytest.raises(ApiError, match=r"403.*node-labels-rbac\.yaml"):
        taken.write({"nvidia.com/gpu.count": "99"})
    with pytest.raises(ApiError, match="403"):
        taken.remove()
    with pytest.raises(ApiError, match="403"):
        thief.write(Change({"nvidia.com/gpu.count": "99"}, {}))
    thief.close()
    assert api.features == before
    for method, path in (
        ("POST", FOLDER),
        ("GET", FOLDER),
        ("GET", "/api/v1/secrets"),
        ("POST", "/api/v1/nodes"),
        ("DELETE", f"/api/v1/nodes/{NODE}"),
        ("PUT", PLACE.replace(NAMESPACE, "kube-system")),
        ("PATCH", "/api/v1/nodes/node-2/status"),
        ("PUT", f"/api/v1/nodes/{NODE}/status"),
        ("GET", EVENTS),
        ("DELETE", f"{EVENTS}/x"),
        ("POST", EVENTS.replace("default", "kube-system")),
    ):
        assert not allows(method, path), (method, path)
