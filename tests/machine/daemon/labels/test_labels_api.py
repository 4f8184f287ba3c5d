# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is asked of the API, against a stand-in."""

from __future__ import annotations

import subprocess
import sys

import pytest
from gpu_plugin._shared._cluster.machine import api
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.labels.api import NodeApi
from gpu_plugin.labels.owned import OURS, Change, change

from tests.fakes.kubernetes.standin_api import DROP, Api
from tests.support.waiting import LIMIT


def test_a_patch_changes_what_it_names(api: Api, node: NodeApi) -> None:
    api.set(example_com__a="theirs", old="1", annotations_gpu="x")
    state = node.read().node
    after = node.write(Change({"nvidia.com/gpu.count": "2", "old": None}, {OURS: "x"}))
    assert after.labels == {
        **{key: text for key, text in state.labels.items() if key != "old"},
        "nvidia.com/gpu.count": "2",
    }
    assert after.annotations == {OURS: "x"}
    assert node.read().node == after


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
    assert node.read().node.labels


def test_labels_that_a_node_may_not_set_are_refused(node: NodeApi) -> None:
    with pytest.raises(ApiError, match=r"403 .*not allowed to modify labels"):
        node.write(Change({"node-restriction.kubernetes.io/x": "1"}))


def test_a_node_that_is_not_there(api: Api, node: NodeApi) -> None:
    api.node = None
    with pytest.raises(ApiError, match=r"no such node.*--node-name"):
        node.read()


ODD = {
    "not JSON": b"<html>",
    "no items": b"{}",
    "null items": b'{"items": null, "metadata": null}',
    "a list": b"[]",
    "an odd node": b'{"items": [{"metadata": 3}], "metadata": {"resourceVersion": "1"}}',
}


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
def test_an_answer_of_another_shape_is_an_error_like_others(
    node: NodeApi, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setattr(api, "read_body", lambda _response, _longest: answer)
    with pytest.raises(ApiError, match="reading node node-1"):
        node.read()


def test_what_is_asked_for_is_metadata_and_no_model_is_loaded(api: Api) -> None:
    api.user = api.admin
    script = """
import sys
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.api import NodeApi
from gpu_plugin.labels.output import NodeFeature
access = Access(sys.argv[1])
node = NodeApi(access, "node-1")
seen = node.read()
begun = next(node.follow(seen.version, 60))
NodeFeature(access, "node-1", "gpus").write({"a": "b"})
print(*(one for one in sys.modules if one.startswith("kubernetes.client.") and "models.v1" in one))
print(*(one for one in sys.modules if one.startswith("kubernetes.client.api.")))
"""
    command = [sys.executable, "-c", script, str(api.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert done.stdout.split() == []


def test_no_change_is_no_request(api: Api, node: NodeApi) -> None:
    wanted = {"nvidia.com/gpu.count": "1"}
    first = node.read().node
    node.write(change(first, wanted))
    assert not change(node.read().node, wanted)
    assert api.counted("PATCH") == 1
