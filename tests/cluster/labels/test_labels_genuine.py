# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is asked of the API, of a genuine API server: its authorizer, its admission and its policies."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_plugin._shared._core.mig.label import STATE_LABEL
from gpu_plugin.cluster.access import Access
from gpu_plugin.cluster.errors import ApiError
from gpu_plugin.labels.api import NodeApi
from gpu_plugin.labels.feature import NodeFeature
from gpu_plugin.labels.health.reporter import Reporter
from gpu_plugin.labels.owned import MIG_REASON, Change, change

from tests.fakes.kubernetes.genuine_api import KINDS, GenuineApi
from tests.support.paths import REPOSITORY

NODE, SPACE = "node-1", "node-feature-discovery"
MANIFEST = (REPOSITORY / "files/kubernetes/node-labels-rbac.yaml").read_text()
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
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GenuineApi]:
    made = GenuineApi(tmp_path_factory.mktemp("api"))
    for name in (NODE, "node-2"):
        made.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    made.create(yaml.safe_load(CRD))
    yield made
    made.stop()


@pytest.fixture
def kubelet(cluster: GenuineApi) -> Access:
    return cluster.access(f"system:node:{NODE}", "system:nodes")


@pytest.fixture
def account(cluster: GenuineApi) -> Access:
    """The access that our manifest gives a node."""
    for _each in range(100):
        try:
            for one in yaml.safe_load(MANIFEST.replace("NODE", NODE))["items"]:
                cluster.create(one)
            break
        except ApiError as error:  # the custom resource is not served yet
            if error.status != 404:
                raise
            time.sleep(0.2)
    return cluster.account(f"gpu-node-labels-{NODE}", SPACE)


def report(access: Access, folder: Path, *rounds: list[dict[str, Any]]) -> None:
    now = [time.time()]
    reporter = Reporter(NODE, folder / "told.json", lambda: access, lambda: now[0])
    for health in rounds:
        now[0] += 100
        state = {"state": "serving", "health": health}
        assert reporter.keep(state, told=True, condition=True) == {}


def events(cluster: GenuineApi) -> dict[str, int]:
    items = cluster.get("Event", namespace="default")["items"]
    mine = [one for one in items if one["involvedObject"]["name"] == NODE]
    return {one["reason"]: one["count"] for one in mine if one["reason"].startswith("GPU")}


def condition(cluster: GenuineApi) -> str | None:
    found = cluster.get("Node", NODE)["status"].get("conditions", [])
    return next((one["status"] for one in found if one["type"] == "GPUHealthy"), None)


def test_a_kubelets_access_labels_its_node_and_follows_it(
    cluster: GenuineApi, kubelet: Access
) -> None:
    node = NodeApi(kubelet, NODE)
    seen = node.read()
    assert seen.node.uid
    written = node.write(Change({"nvidia.com/gpu.count": "8"}, {"gpu.node/labels": "x"}))
    assert written.labels["nvidia.com/gpu.count"] == "8"
    begun, news = itertools.islice(node.follow(seen.version, 10), 2)
    assert begun.node is None
    assert news.node is not None
    assert news.node.labels["nvidia.com/gpu.count"] == "8"
    with pytest.raises(ApiError, match="403"):
        node.write(Change({"node-restriction.kubernetes.io/x": "1"}))
    with pytest.raises(ApiError, match="422"):
        node.write(Change({"nvidia.com/x": "not valid!"}))
    with pytest.raises(ApiError, match="403"):
        NodeApi(kubelet, "node-2").write(Change({"a": "1"}))
    with pytest.raises(ApiError, match="403"):
        NodeApi(kubelet, "node-2").read()
    kubelet.close()


def test_a_kubelets_access_writes_events_and_the_condition(
    cluster: GenuineApi, kubelet: Access, tmp_path: Path
) -> None:
    report(kubelet, tmp_path, [UNFIT], [], [UNFIT])
    assert events(cluster) == {"GPUUnhealthy": 2, "GPUHealthy": 1}
    assert condition(cluster) == "False"
    Reporter(NODE, tmp_path / "told.json", lambda: kubelet).remove()
    assert condition(cluster) is None
    kubelet.close()


def test_a_kubelets_access_answers_a_mig_label(
    cluster: GenuineApi, kubelet: Access, tmp_path: Path
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
    Reporter(NODE, tmp_path / "told.json", lambda: kubelet).say_mig("a", reason, failed=True)
    found = [
        one["type"]
        for one in cluster.get("Event", namespace="default")["items"]
        if one["reason"] == "MIGConfigFailed"
    ]
    assert found == ["Warning"]
    kubelet.close()


def test_the_manifest_gives_a_node_what_it_needs(
    cluster: GenuineApi, account: Access, tmp_path: Path
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
    account.close()


def test_the_manifests_policies_keep_a_node_to_itself(cluster: GenuineApi, account: Access) -> None:
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
    cluster.create(next(one for one in yaml.safe_load(MANIFEST.replace("NODE", NODE))["items"]
                        if one["kind"] == "NodeFeature"))  # fmt: skip
    other = cluster.get("NodeFeature", f"nvidia-features-for-{NODE}", SPACE)
    other["metadata"]["labels"] = {"nfd.node.kubernetes.io/node-name": "node-2"}
    refused.append(("PUT", f"{folder}/nvidia-features-for-{NODE}", other, MERGE))
    for method, path, body, kind in refused:
        kind = kind if method == "PATCH" else "application/json"
        with pytest.raises(ApiError) as caught:
            account.ask("trying", method, path, body, kind=kind)
        assert caught.value.status in (403, 422), (method, path)
    account.ask("writing", "POST", place, event("ours", NODE))
    account.close()
