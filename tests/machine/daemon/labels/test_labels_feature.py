# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The NodeFeature object, and who owns it."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.output import NodeFeature

from tests.fakes.kubernetes.standin_api import NODE, Api

PLACE = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpus/nodefeatures/nvidia-features-for-node-1"
POD = "/api/v1/namespaces/gpus/pods/gfd-x"
SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "gfd", "uid": "uid-7"}
ONE, TWO = {"nvidia.com/gpu.count": "1"}, {"nvidia.com/gpu.count": "2"}


@pytest.fixture(autouse=True)
def allowed(api: Api) -> None:
    """A kubelet's access is none to these objects; what an account needs is in our manifest."""
    api.user = api.admin


@pytest.fixture
def feature(api: Api) -> NodeFeature:
    return NodeFeature(Access(str(api.kubeconfig)), NODE, "gpus")


def in_pod(api: Api) -> NodeFeature:
    return NodeFeature(Access(str(api.kubeconfig)), NODE, "gpus", "gfd-x")


def owners(api: Api) -> Any:
    return api.objects[PLACE]["metadata"].get("ownerReferences")


def test_node_features(api: Api, feature: NodeFeature) -> None:
    assert feature.write(ONE)
    assert not feature.write(ONE)
    made = api.features[PLACE]
    assert made["spec"]["labels"] == ONE
    assert made["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": NODE}
    assert feature.write(TWO)
    assert api.features[PLACE]["spec"]["labels"] == TWO
    api.faults.append(("PUT", 409))
    with pytest.raises(ApiError, match="writing NodeFeature gpus/nvidia-features-for-node-1: 409"):
        feature.write({})
    feature.remove()
    assert not api.features
    feature.remove()


def test_an_object_goes_with_its_node(api: Api, feature: NodeFeature) -> None:
    feature.write(ONE)
    assert owners(api) == [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "uid-1"}]
    before = len(api.requests)
    assert not feature.write(ONE)
    assert len(api.requests) == before + 1  # no more than a look at the object


def test_a_node_that_registered_again_is_another_owner(api: Api, feature: NodeFeature) -> None:
    feature.write(ONE)
    api.merge({"metadata": {"uid": "uid-2"}})
    del api.objects[PLACE]  # by the garbage collector, as its owner is gone
    assert feature.write(ONE)
    assert owners(api)[0]["uid"] == "uid-2"


def test_an_object_that_was_made_without_owner_gets_one(api: Api, feature: NodeFeature) -> None:
    feature.write(ONE)
    del api.objects[PLACE]["metadata"]["ownerReferences"]
    assert feature.write(ONE)
    assert owners(api)[0]["kind"] == "Node"


def test_in_a_pod_its_daemon_set_is_the_owner(api: Api) -> None:
    """As GPU Feature Discovery 0.20 has it."""
    meta = {
        "name": "gfd-x",
        "uid": "uid-8",
        "ownerReferences": [{**SET, "blockOwnerDeletion": True}],
    }
    api.objects[POD] = {"kind": "Pod", "metadata": meta}
    in_pod(api).write(ONE)
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "gfd-x", "uid": "uid-8"}
    assert owners(api) == [{**SET, "controller": True}, pod]


def test_a_pod_of_no_daemon_set_owns_nothing(api: Api) -> None:
    api.objects[POD] = {"kind": "Pod", "metadata": {"name": "gfd-x", "uid": "uid-8"}}
    in_pod(api).write(ONE)
    assert owners(api) == []


def test_an_owner_that_may_not_be_read_changes_nothing(
    api: Api, feature: NodeFeature, capsys: pytest.CaptureFixture[str]
) -> None:
    api.allows = lambda _verb, resource: resource == "nodefeatures"
    assert feature.write(ONE)
    assert feature.write(TWO)
    assert owners(api) is None
    assert capsys.readouterr().err.count("its owner is not known") == 1
    api.objects[PLACE]["metadata"]["ownerReferences"] = [SET]
    feature.write(ONE)
    assert owners(api) == [SET]
    assert sum("/nodes" in path for _method, path in api.requests) == 1


def test_a_pod_that_is_not_there_is_told_by_name(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    in_pod(api).write(ONE)
    assert "reading pod gpus/gfd-x" in capsys.readouterr().err
