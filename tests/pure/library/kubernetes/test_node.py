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


TAINTS = st.lists(
    st.sampled_from(
        [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
            {"key": nodes.NOT_ACCEPTED, "effect": "NoExecute"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026"},
            {"key": nodes.NOT_ACCEPTED, "effect": "NoSchedule"},
        ]
    ),
    unique_by=lambda taint: (taint["key"], taint["effect"]),
)


@given(TAINTS)
def test_hold_and_admit_keep_the_taints_of_others(taints: list[dict[str, str]]) -> None:
    ours = {"key": "gpu.node/not-accepted", "effect": "NoSchedule"}
    foreign = [taint for taint in taints if taint != ours]
    answer = {"metadata": {"name": "node-1", "resourceVersion": "7"}, "spec": {"taints": taints}}
    node = nodes.read(answer)
    held = apply(node, nodes.hold(node))
    assert sorted(held.taints, key=str) == sorted([*foreign, ours], key=str)
    admitted = apply(held, nodes.admit(held))
    assert list(admitted.taints) == foreign
    assert (nodes.hold(held), nodes.admit(admitted)) == ({}, {})


def apply(node: DrainNode, patch: dict[str, Any]) -> DrainNode:
    """Return the node with the taints that a patch gives it."""
    if not patch:
        return node
    assert patch["metadata"] == {"resourceVersion": node.version}
    return dataclasses.replace(node, taints=tuple(patch["spec"]["taints"]))


def test_a_node_that_has_not_joined_is_not_patched() -> None:
    node = DrainNode("node-1", "", joined=False)
    assert (nodes.hold(node), nodes.admit(node)) == ({}, {})


def test_taints_are_described_as_kubectl_writes_them() -> None:
    present = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    described = [nodes.describe_taint(each) for each in (present, {"key": "a/b", "effect": "E"})]
    assert described == ["nvidia.com/gpu=present:NoSchedule", "a/b:E"]
