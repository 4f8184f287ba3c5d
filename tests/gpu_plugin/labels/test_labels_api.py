# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The Kubernetes client against a stand-in API."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.labels import api as module
from gpu_plugin.labels.api import NodeApi, NodeWatch, find_kubeconfig
from gpu_plugin.labels.owned import OURS, ApiError, Change, NodeState, change
from running import eventually
from standin_api import DROP, NODE, Api

PLACE = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpus/nodefeatures/nvidia-features-for-node-1"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def node(api: Api) -> Iterator[NodeApi]:
    made = NodeApi(str(api.kubeconfig), NODE)
    yield made
    made.close()


def test_a_patch_changes_what_it_names(api: Api, node: NodeApi) -> None:
    api.set(example_com__a="theirs", old="1", annotations_gpu="x")
    state, _version = node.read()
    after = node.write(Change({"nvidia.com/gpu.count": "2", "old": None}, {OURS: "x"}))
    assert after.labels == {
        **{key: text for key, text in state.labels.items() if key != "old"},
        "nvidia.com/gpu.count": "2",
    }
    assert after.annotations == {OURS: "x"}
    assert node.read()[0] == after


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "401 .*Next step: give the kubeconfig's user the right"),
        (403, "403 .*Next step: give the kubeconfig's user the right"),
        (409, "409 by order of the test"),
        (500, "500 by order of the test"),
    ],
)
def test_what_the_api_answers_is_told(api: Api, node: NodeApi, status: int, words: str) -> None:
    api.faults.append(("PATCH", status))
    with pytest.raises(ApiError, match=f"labelling node node-1: {words}") as caught:
        node.write(Change({"a": "1"}))
    assert caught.value.status == status
    assert node.write(Change({"a": "1"})).labels["a"] == "1"


def test_a_connection_that_breaks_is_told(api: Api, node: NodeApi) -> None:
    api.faults.append(("GET", DROP))
    with pytest.raises(ApiError, match="reading node node-1") as caught:
        node.read()
    assert caught.value.status == 0
    api.stop()
    with pytest.raises(ApiError, match="refused"):
        node.read()
    api.start()
    assert node.read()[0].labels


def test_labels_that_a_node_may_not_set_are_refused(node: NodeApi) -> None:
    with pytest.raises(ApiError, match="403 NodeRestriction"):
        node.write(Change({"node-restriction.kubernetes.io/x": "1"}))


def test_a_node_that_is_not_there(api: Api, node: NodeApi) -> None:
    api.node = None
    with pytest.raises(ApiError, match=r"no such node.*--node-name"):
        node.read()


def test_a_kubeconfig_that_is_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(module, "KUBECONFIGS", (str(tmp_path / "a"), str(tmp_path / "b")))
    with pytest.raises(ApiError, match=r"none of .*/a, .*/b is there.*--kubeconfig"):
        find_kubeconfig("")
    (tmp_path / "b").write_text("{}")
    assert find_kubeconfig("") == str(tmp_path / "b")
    with pytest.raises(ApiError, match="/c is not there"):
        find_kubeconfig(str(tmp_path / "c"))
    with pytest.raises(ApiError, match="reading the kubeconfig"):
        NodeApi(str(tmp_path / "b"), NODE)


@pytest.fixture
def told(api: Api) -> Iterator[queue.SimpleQueue[NodeState | ApiError]]:
    """What a watch of the node tells."""
    found: queue.SimpleQueue[NodeState | ApiError] = queue.SimpleQueue()
    watch = NodeWatch(lambda: NodeApi(str(api.kubeconfig), NODE), found.put, pause=0.05)
    watch.start()
    yield found
    watch.stop()
    eventually(lambda: (api.cut(), watch.join(0.1), not watch.is_alive())[-1])


Told = queue.SimpleQueue[NodeState | ApiError]


def state(told: Told) -> NodeState:
    """The next state that is told; failures in between are left out."""
    while True:
        found = told.get(timeout=8)
        if isinstance(found, NodeState):
            return found


def test_a_watch_tells_changes_of_labels_and_no_others(api: Api, told: Told) -> None:
    assert "a" not in state(told).labels
    eventually(lambda: api.counted("WATCH"))
    api.set(a="1")
    assert state(told).labels["a"] == "1"
    api.merge({"status": {"phase": "busy"}})
    api.set("annotations", note="x")
    assert state(told).annotations == {"note": "x"}
    assert told.empty()


def test_a_watch_of_a_past_that_is_forgotten_begins_anew(api: Api, told: Told) -> None:
    state(told)
    eventually(lambda: api.counted("WATCH"))
    api.expire()
    eventually(lambda: api.counted("WATCH") > 1)
    api.set(a="1")
    while "a" not in state(told).labels:
        pass
    assert told.empty()  # 410 is nothing that anybody has to hear of
    api.faults.append(("WATCH", 410))
    eventually(lambda: (api.cut(), not api.faults)[-1])
    api.set(b="2")
    while "b" not in state(told).labels:
        pass


def test_a_watch_survives_what_can_happen(api: Api, told: Told) -> None:
    state(told)
    eventually(lambda: api.counted("WATCH"))
    for number, fault in enumerate([("GET", 500), ("GET", DROP), ("WATCH", 403), ("WATCH", DROP)]):
        api.faults.append(fault)
        eventually(lambda: (api.cut(), not api.faults)[-1])
        api.set(a=str(number))
        while state(told).labels.get("a") != str(number):
            pass
    api.stop()
    api.set(a="later")
    api.start()
    while state(told).labels.get("a") != "later":
        pass


def test_access_that_is_renewed_is_taken(api: Api, told: Told) -> None:
    state(told)
    eventually(lambda: api.counted("WATCH"))
    api.token = "new"
    eventually(lambda: (api.cut(), not told.empty())[-1])
    while getattr(told.get(timeout=8), "status", 0) != 401:
        pass
    api.write_kubeconfig("new")
    assert state(told)


def test_node_features(api: Api, node: NodeApi) -> None:
    assert node.write_feature("gpus", {"nvidia.com/gpu.count": "1"})
    assert not node.write_feature("gpus", {"nvidia.com/gpu.count": "1"})
    made = api.features[PLACE]
    assert made["spec"]["labels"] == {"nvidia.com/gpu.count": "1"}
    assert made["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": NODE}
    assert node.write_feature("gpus", {"nvidia.com/gpu.count": "2"})
    assert api.features[PLACE]["spec"]["labels"] == {"nvidia.com/gpu.count": "2"}
    api.faults.append(("PUT", 409))
    with pytest.raises(ApiError, match="writing NodeFeature gpus/nvidia-features-for-node-1: 409"):
        node.write_feature("gpus", {})
    node.remove_feature("gpus")
    assert not api.features
    node.remove_feature("gpus")


def test_no_change_is_no_request(api: Api, node: NodeApi) -> None:
    wanted = {"nvidia.com/gpu.count": "1"}
    first, _version = node.read()
    node.write(change(first, wanted))
    assert not change(node.read()[0], wanted)
    assert api.counted("PATCH") == 1
