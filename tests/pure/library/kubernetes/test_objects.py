# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects as manifests have them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.capability import (
    ClusterObjectsCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.state import (
    Ref,
    flat,
    group_path,
    is_ours,
    is_same,
    resource_of,
    wishes,
)

ONE = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "b"}}


def test_lists_are_taken_apart_and_the_later_object_counts() -> None:
    other = {**ONE, "data": {"x": "eA=="}}
    found = flat([{"kind": "List", "apiVersion": "v1", "items": [ONE]}, other])
    assert found == {Ref("v1", "Secret", "a", "b"): other}
    assert [str(one) for one in found] == ["Secret b/a"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["text"], r"objects\[0\]: 'text' is not valid"),
        ([{**ONE, "kind": ""}], r"objects\[0\]\.kind: '' is not valid"),
        (
            [ONE, {"kind": "List", "items": [{**ONE, "metadata": {}}]}],
            r"objects\[1\]\.items\[0\]\.m",
        ),
        ([{**ONE, "apiVersion": 1}], r"objects\[0\]\.apiVersion: 1 is not valid"),
    ],
)
def test_what_is_no_object_is_told_by_its_place(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        flat(given)


def test_what_the_server_writes_is_no_difference() -> None:
    live: Any = {
        **ONE,
        "metadata": {**ONE["metadata"], "uid": "1", "managedFields": []},
        "status": {},
    }
    assert is_same(live, dict(ONE))
    assert not is_same(live, {**ONE, "data": {"x": "eA=="}})
    assert not is_same(None, dict(ONE))
    hidden: Any = wishes({**ONE, "data": {"x": "eA=="}})
    assert hidden["data"] == {"x": "(hidden)"}
    assert not is_same({**ONE, "data": {"x": "eA=="}}, {**ONE, "data": {"x": "eQ=="}})


def test_ours_is_what_was_applied_by_our_name() -> None:
    def written(manager: str, operation: str) -> Any:
        return {"metadata": {"managedFields": [{"manager": manager, "operation": operation}]}}

    assert is_ours(written("gpu-node", "Apply"), "gpu-node")
    assert not is_ours(written("gpu-node", "Update"), "gpu-node")
    assert not is_ours(written("kubectl", "Apply"), "gpu-node")


def test_kinds_are_found_as_the_server_lists_them() -> None:
    listed: Any = {
        "resources": [
            {"name": "pods/status", "kind": "Pod", "namespaced": True},
            {"name": "pods", "kind": "Pod", "namespaced": True},
        ]
    }
    assert resource_of(listed, "Pod") == ("pods", True)
    assert resource_of(listed, "Node") is None
    assert (group_path("v1"), group_path("apps/v1")) == ("/api/v1", "/apis/apps/v1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prune": ["v1/Secret"], "label": ""}, "label: '' is not valid"),
        ({"prune": ["Secret"], "label": "a=b"}, "prune: 'Secret' is not valid"),
    ],
)
def test_pruning_needs_a_label_and_kinds(options: Any, words: str) -> None:
    params = {"field_manager": "x", "objects": [], "prune": [], "label": "", **options}
    with pytest.raises(InputError, match=words):
        ClusterObjectsCapability(params, lambda *_named: pytest.fail("asked"))
