# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The rights that we hand out for node labels: enough for the one node, and for no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.support.paths import REPOSITORY

NODE = "node-1"
TEXT = (REPOSITORY / "files/kubernetes/node-labels-rbac.yaml").read_text()
OBJECTS: list[dict[str, Any]] = yaml.safe_load(TEXT.replace("NODE", NODE))["items"]
ROLES = [one for one in OBJECTS if one["kind"] in ("Role", "ClusterRole")]
BINDINGS = [one for one in OBJECTS if one["kind"] in ("RoleBinding", "ClusterRoleBinding")]
(FEATURE,) = [one for one in OBJECTS if one["kind"] == "NodeFeature"]


@pytest.mark.attack("labels-of-other-nodes")
def test_every_right_is_of_one_node_by_name() -> None:
    for role in ROLES:
        for rule in role["rules"]:
            words = [word for some in rule.values() for word in some]
            assert not [word for word in words if "*" in word]
            if rule["resources"] == ["events"]:  # a policy bounds these, as no name can
                assert role["metadata"]["namespace"] == "default"
                continue
            assert "create" not in rule["verbs"]
            assert all(name.endswith(NODE) for name in rule["resourceNames"])
            assert rule["resourceNames"]
    for one in (*ROLES, *BINDINGS):
        assert one["metadata"]["name"].endswith(NODE)
    (account,) = [one for one in OBJECTS if one["kind"] == "ServiceAccount"]
    for binding in BINDINGS:
        (subject,) = binding["subjects"]
        assert subject["name"] == account["metadata"]["name"]
        assert subject["namespace"] == account["metadata"]["namespace"]
        assert binding["roleRef"]["name"] in {role["metadata"]["name"] for role in ROLES}


POLICIES = {
    one["metadata"]["name"]: one for one in OBJECTS if one["kind"] == "ValidatingAdmissionPolicy"
}
DENIED = {
    one["spec"]["policyName"]: one["spec"]["validationActions"]
    for one in OBJECTS
    if one["kind"] == "ValidatingAdmissionPolicyBinding"
}


@pytest.mark.attack("labels-of-other-nodes")
def test_a_policy_looks_at_whom_an_object_is_about() -> None:
    """RBAC bounds the object's name only; which node it labels is a label in it."""
    policy = POLICIES["gpu-node-labels"]
    assert policy["spec"]["failurePolicy"] == "Fail"
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert set(rule["operations"]) == {"CREATE", "UPDATE"}
    (key,) = FEATURE["metadata"]["labels"]
    assert key in policy["spec"]["validations"][0]["expression"]
    prefix = FEATURE["metadata"]["name"].removesuffix(NODE)
    assert prefix in policy["spec"]["matchConditions"][0]["expression"]


def test_a_policy_looks_at_whom_an_event_is_about() -> None:
    """RBAC can bound neither the names of Events nor the objects that they are about."""
    policy = POLICIES["gpu-node-labels-events"]
    assert policy["spec"]["failurePolicy"] == "Fail"
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], set(rule["operations"])) == (["events"], {"CREATE", "UPDATE"})
    (account,) = [one for one in OBJECTS if one["kind"] == "ServiceAccount"]
    meta = account["metadata"]
    user = f"system:serviceaccount:{meta['namespace']}:{meta['name'].removesuffix(NODE)}"
    (condition,) = policy["spec"]["matchConditions"]
    assert f"'{user}'" in condition["expression"]
    new, old = (one["expression"] for one in policy["spec"]["validations"])
    assert "object.involvedObject.name == variables.node" in new
    assert "oldObject.involvedObject.name == variables.node" in old
    assert NODE not in json.dumps(POLICIES)  # they are one for all nodes


def test_each_policy_is_bound_and_denies() -> None:
    assert {name: ["Deny"] for name in POLICIES} == DENIED
