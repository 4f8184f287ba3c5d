# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who has cordoned a node, and what is patched."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain import node as nodes
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain.node import DrainNode
from ansible_collections.gpu.node.plugins.module_utils._cluster.rights import (
    OF_CLAIMS,
    OF_DRAIN,
    of_cordon,
    rules,
)
from hypothesis import given
from hypothesis import strategies as st

NODES = st.builds(
    DrainNode,
    name=st.just("node-1"),
    version=st.just("7"),
    unschedulable=st.booleans(),
    cordoned=st.sampled_from(["", "2026 me: driver"]),
    failed=st.sampled_from(["", "2026 it broke"]),
    managers=st.sampled_from(
        [frozenset[str](), frozenset({nodes.MANAGER}), frozenset({"kubectl-cordon"})]
    ),
)


def patched(node: DrainNode, patch: dict[str, Any]) -> DrainNode:
    """Return the node as the API server has it after a patch of ours."""
    given = patch.get("metadata", {}).get("annotations", {})
    held = {"cordoned": nodes.CORDONED, "failed": nodes.FAILED}
    texts = {key: given.get(name, getattr(node, key)) or "" for key, name in held.items()}
    node = dataclasses.replace(node, **texts)
    if "spec" not in patch:
        return node
    wanted = bool(patch["spec"]["unschedulable"])
    by = frozenset({nodes.MANAGER}) if wanted else frozenset[str]()
    return dataclasses.replace(node, unschedulable=wanted, managers=by)


@given(NODES, st.sampled_from(["", "it broke", "again"]))
def test_a_second_cordon_changes_nothing(node: DrainNode, failure: str) -> None:
    after = patched(node, nodes.cordon(node, "2026 me: driver", failure, "2027"))
    assert after.unschedulable
    assert after.ours == (node.ours or not node.unschedulable)
    assert nodes.cordon(after, "2028 you: mig", failure, "2028") == {}


@given(NODES)
def test_only_what_is_ours_is_uncordoned(node: DrainNode) -> None:
    after = patched(node, nodes.uncordon(node))
    assert after.unschedulable == (node.unschedulable and not node.ours)
    assert (after.cordoned, after.failed) == ("", "")
    assert nodes.uncordon(after) == {}


@given(NODES)
def test_each_patch_is_for_the_version_that_was_read(node: DrainNode) -> None:
    for patch in (nodes.cordon(node, "note"), nodes.uncordon(node)):
        assert not patch or patch["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("managers", "ours"),
    [
        (["kubelet", "gpu-node-drain"], True),
        (["kubectl-cordon"], False),
        ([], True),  # some proxies and backups leave the fields out
    ],
)
def test_the_fields_of_a_node_tell_who_cordoned_it(managers: list[str], ours: bool) -> None:
    fields = {"f:spec": {"f:unschedulable": {}}}
    kubelet = {"manager": "kubelet", "fieldsV1": {"f:status": {}}}
    found = {
        "metadata": {
            "name": "node-1",
            "resourceVersion": "1",
            "annotations": {nodes.CORDONED: "2026 me: driver"},
            "managedFields": [kubelet, *({"manager": one, "fieldsV1": fields} for one in managers)],
        },
        "spec": {"unschedulable": True},
    }
    assert nodes.read(found).ours == ours


def test_rules_name_each_resource_once() -> None:
    assert rules([*of_cordon("node-1"), *OF_DRAIN, *OF_CLAIMS]) == (
        '- {apiGroups: [""], resources: [nodes], verbs: [get, patch]} '
        '- {apiGroups: [""], resources: [pods], verbs: [list]} '
        '- {apiGroups: [""], resources: [pods/eviction], verbs: [create]} '
        '- {apiGroups: ["resource.k8s.io"], resources: [resourceclaims], verbs: [get]}'
    )
