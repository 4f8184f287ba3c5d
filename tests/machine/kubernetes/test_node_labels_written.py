# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is asked of the API for a node's labels: of its authorizer, its admission and the manifest's policies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin._shared._mig.label import STATE_LABEL
from gpu_plugin._shared._node.gate import Gate
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.api import NodeApi
from gpu_plugin.labels.health.condition import ACCEPTED, accepted
from gpu_plugin.labels.health.reporter import Reporter
from gpu_plugin.labels.output import NodeFeature
from gpu_plugin.labels.owned import MIG_REASON, Change, change

from tests.fakes.kubernetes.administered import KINDS, Administered
from tests.fakes.kubernetes.recorded.words import manifest
from tests.support.waiting import eventually

NODE, SPACE = "node-1", "node-feature-discovery"
OBJECTS = manifest("node-labels-rbac", NODE)
TIMES = itertools.count(2_000_000_000.0, 100)  # of all reports, one after the other
MERGE, STRATEGIC = (f"application/{kind}-patch+json" for kind in ("merge", "strategic-merge"))
UNFIT = {"gpu": "GPU-0", "index": "0", "reason": "XID 79"}
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: nodefeatures.nfd.k8s-sigs.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements"}
spec:
  group: nfd.k8s-sigs.io
  names: {kind: NodeFeature, plural: nodefeatures, singular: nodefeature, listKind: NodeFeatureList}
  scope: Namespaced
  versions:
    - {name: v1alpha1, served: true, storage: true,
       schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"""


@pytest.fixture(scope="module")
def cluster(
    api_server: type[Administered], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Administered]:
    with api_server(tmp_path_factory.mktemp("api")) as made:
        for name in (NODE, "node-2"):
            made.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        made.create(yaml.safe_load(CRD))
        eventually(lambda: served(made))
        yield made


def served(cluster: Administered) -> bool:
    """Return whether the custom resource is served, which takes a moment."""
    try:
        return "items" in cluster.get("NodeFeature", namespace=SPACE)
    except ApiError as error:
        if error.status not in (404, 429):
            raise
        return False


@pytest.fixture
def kubelet(cluster: Administered) -> Iterator[Access]:
    made = cluster.access(f"system:node:{NODE}", "system:nodes")
    yield made
    made.close()


@pytest.fixture
def account(cluster: Administered) -> Iterator[Access]:
    """The access that our manifest gives a node."""
    for one in OBJECTS:
        cluster.create(one)
    made = cluster.account(f"gpu-node-labels-{NODE}", SPACE)
    yield made
    made.close()


def report(
    access: Access, folder: Path, *rounds: list[dict[str, Any]], gate: Gate | None = None
) -> None:
    reporter = Reporter(NODE, folder / "told.json", lambda: access, lambda: next(TIMES))
    gated = accepted(gate, "")
    for health in rounds:
        state = {"state": "serving", "health": health}
        assert reporter.keep(state, events_wanted=True, condition=True, accepted=gated) == {}


def events(cluster: Administered) -> dict[str, int]:
    items = cluster.get("Event", namespace="default")["items"]
    mine = [one for one in items if one["involvedObject"]["name"] == NODE]
    return {one["reason"]: one["count"] for one in mine if one["reason"].startswith("GPU")}


def condition(cluster: Administered, kind: str = "GPUHealthy") -> str | None:
    found = cluster.get("Node", NODE)["status"].get("conditions", [])
    return next((one["status"] for one in found if one["type"] == kind), None)


def test_a_kubelets_access_labels_its_node_and_follows_it(
    cluster: Administered, kubelet: Access
) -> None:
    node = NodeApi(kubelet, NODE)
    seen = node.read()
    assert seen.node.uid
    written = node.write(Change({"nvidia.com/gpu.count": "8"}, {"gpu.node/labels": "x"}))
    assert written.labels["nvidia.com/gpu.count"] == "8"
    (begun, _version), (news, _later) = itertools.islice(node.follow(seen.version, 10), 2)
    assert begun is None
    assert news is not None
    assert news.labels["nvidia.com/gpu.count"] == "8"
    with pytest.raises(ApiError, match="403"):
        node.write(Change({"node-restriction.kubernetes.io/x": "1"}))
    with pytest.raises(ApiError, match="422"):
        node.write(Change({"nvidia.com/x": "not valid!"}))
    with pytest.raises(ApiError, match="403"):
        NodeApi(kubelet, "node-2").write(Change({"a": "1"}))
    with pytest.raises(ApiError, match="403"):
        NodeApi(kubelet, "node-2").read()


def test_a_kubelets_access_writes_events_and_conditions(
    cluster: Administered, kubelet: Access, tmp_path: Path
) -> None:
    report(kubelet, tmp_path, [UNFIT], [], [UNFIT], gate=Gate("", open_gpus=("GPU-0",)))
    assert events(cluster) == {"GPUUnhealthy": 2, "GPUHealthy": 1}
    assert condition(cluster) == "False"
    assert condition(cluster, ACCEPTED) == "True"
    Reporter(NODE, tmp_path / "told.json", lambda: kubelet).remove()
    assert condition(cluster) is None
    assert condition(cluster, ACCEPTED) is None


def test_a_kubelets_access_answers_a_mig_label(
    cluster: Administered, kubelet: Access, tmp_path: Path
) -> None:
    node = NodeApi(kubelet, NODE)
    reason = "GPU 0: in use by pod default/a (container main); " * 40
    planned = change(node.read().node, {STATE_LABEL: "pending"}, mig_reason=reason)
    node.write(planned)
    meta = cluster.get("Node", NODE)["metadata"]
    assert meta["labels"][STATE_LABEL] == "pending"
    assert meta["annotations"][MIG_REASON] == reason
    node.write(change(node.read().node, {STATE_LABEL: "failed"}))
    assert MIG_REASON not in cluster.get("Node", NODE)["metadata"]["annotations"]
    Reporter(NODE, tmp_path / "told.json", lambda: kubelet).report_mig("a", reason, failed=True)
    found = [
        one["type"]
        for one in cluster.get("Event", namespace="default")["items"]
        if one["reason"] == "MIGConfigFailed"
    ]
    assert found == ["Warning"]


def test_the_manifest_gives_a_node_what_it_needs(
    cluster: Administered, account: Access, tmp_path: Path
) -> None:
    feature = NodeFeature(account, NODE, SPACE)
    assert feature.write({"nvidia.com/gpu.count": "8"})
    assert not feature.write({"nvidia.com/gpu.count": "8"})
    made = cluster.get("NodeFeature", f"nvidia-features-for-{NODE}", SPACE)
    (owner,) = made["metadata"]["ownerReferences"]
    assert owner["uid"] == cluster.get("Node", NODE)["metadata"]["uid"]
    report(account, tmp_path, [UNFIT], [], [UNFIT])
    assert condition(cluster) == "False"
    feature.remove()


def test_the_manifests_policies_keep_a_node_to_itself(
    cluster: Administered, account: Access
) -> None:
    def event(name: str, node: str, kind: str = "Node") -> dict[str, Any]:
        about = {"apiVersion": "v1", "kind": kind, "name": node, "uid": "x"}
        meta = {"name": name, "namespace": "default"}
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": meta,
            "involvedObject": about,
            "reason": "X",
            "message": "x",
            "type": "Normal",
        }

    place = KINDS["Event"].format("default")
    cluster.create(event("theirs", "node-2"))
    refused: list[tuple[str, str, dict[str, Any], str]] = [
        ("POST", place, event("a", "node-2"), MERGE),
        ("POST", place, event("b", NODE, "Pod"), MERGE),
        ("PATCH", f"{place}/theirs", {"message": "y"}, MERGE),
        ("PATCH", f"{place}/theirs", {"involvedObject": {"name": NODE}}, MERGE),
        ("PATCH", "/api/v1/nodes/node-2/status", {"status": {}}, STRATEGIC),
        ("PATCH", "/api/v1/nodes/node-2", {"metadata": {"labels": {"a": "b"}}}, MERGE),
    ]
    folder = KINDS["NodeFeature"].format(SPACE)
    cluster.create(next(one for one in OBJECTS if one["kind"] == "NodeFeature"))
    other = cluster.get("NodeFeature", f"nvidia-features-for-{NODE}", SPACE)
    other["metadata"]["labels"] = {"nfd.node.kubernetes.io/node-name": "node-2"}
    refused.append(("PUT", f"{folder}/nvidia-features-for-{NODE}", other, MERGE))
    for method, path, body, kind in refused:
        kind = kind if method == "PATCH" else "application/json"
        with pytest.raises(ApiError) as caught:
            account.ask("trying", method, path, body, kind=kind)
        assert caught.value.status in (403, 422), (method, path)
    account.ask("writing", "POST", place, event("ours", NODE))
