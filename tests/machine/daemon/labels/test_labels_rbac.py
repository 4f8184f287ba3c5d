# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The rights that we hand out for node labels: enough for the one node, and for no other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.api import NodeApi
from gpu_plugin.labels.health.reporter import Reporter
from gpu_plugin.labels.output import NodeFeature
from gpu_plugin.labels.owned import Change

from tests.fakes.kubernetes.recorded.words import manifest
from tests.fakes.kubernetes.standin.authorizers import account, refusal
from tests.fakes.kubernetes.standin.resources import Asked, read
from tests.fakes.kubernetes.standin_api import EVENTS, NODE, Api

OBJECTS = manifest("node-labels-rbac", NODE)
ROLES = [one for one in OBJECTS if one["kind"] in ("Role", "ClusterRole")]
(FEATURE,) = [one for one in OBJECTS if one["kind"] == "NodeFeature"]
NAMESPACE = FEATURE["metadata"]["namespace"]
FOLDER = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"
PLACE = f"{FOLDER}/{FEATURE['metadata']['name']}"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """An API that knows the roles and policies of the manifest, by the account that they are for."""
    made = Api(tmp_path)
    made.add(*OBJECTS)
    made.user = account(f"gpu-node-labels-{NODE}", NAMESPACE)
    yield made
    made.stop()


def asked(method: str, path: str) -> Asked:
    found = read("GET" if method == "WATCH" else method, path, method == "WATCH")
    assert found is not None
    return found


@pytest.mark.attack("labels-of-other-nodes")
def test_the_role_suffices_for_all_that_is_asked_of_the_api(api: Api, tmp_path: Path) -> None:
    now = [2_000_000_000.0]
    access = Access(str(api.kubeconfig))
    node, feature = NodeApi(access, NODE), NodeFeature(access, NODE, NAMESPACE)
    version = node.read().version
    api.set(example_com__a="b")
    _begun, (first, _version) = itertools.islice(node.follow(version, 60), 2)
    assert first is not None
    assert first.labels["example.com/a"] == "b"
    node.write(Change({"nvidia.com/gpu.count": "2"}, {}))
    assert feature.write({"nvidia.com/gpu.count": "2"})
    assert not feature.write({"nvidia.com/gpu.count": "2"})
    assert api.features[PLACE]["spec"]["labels"] == {"nvidia.com/gpu.count": "2"}
    feature.remove()
    reporter = Reporter(NODE, tmp_path / "told.json", lambda: access, lambda: now[0])
    for number in range(3):  # sick, well, and sick again
        now[0] += 100
        health = [{"gpu": "GPU-0", "reason": "XID 79"}] * (number != 1)
        assert reporter.keep({"health": health}, events_wanted=True, condition=True) == {}
    assert [one["count"] for one in api.events] == [2, 1]
    assert api.conditions()["GPUHealthy"]["status"] == "False"
    with pytest.raises(ApiError, match=r"403.*make this object .*node-labels-rbac\.yaml"):
        feature.write({"nvidia.com/gpu.count": "2"})  # the object is ours to make
    api.requests.pop()
    node.close()
    needed = {(one.verb, one.what) for one in (asked(*each) for each in api.requests)}
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
        assert refusal(api.user, asked(method, path), {}, api.objects) is not None, (method, path)
