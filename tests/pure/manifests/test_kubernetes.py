# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The manifests fit what the roles make of nodes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from gpu_plugin.labels.health.condition import ACCEPTED
from jinja2.nativetypes import NativeEnvironment

from tests.support.paths import REPOSITORY

ROOT = REPOSITORY


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def test_runtime_class_names_the_handler_of_the_role() -> None:
    manifest = load("files/kubernetes/runtimeclass.yaml")
    defaults = load("roles/container_runtime/defaults/main.yml")
    assert (manifest["apiVersion"], manifest["kind"]) == ("node.k8s.io/v1", "RuntimeClass")
    assert manifest["handler"] == defaults["container_runtime_handler"]


@pytest.mark.parametrize("mode", ["cdi", "runtime_class"])
def test_runtime_class_goes_to_the_nodes_that_are_labelled_for_it(mode: str) -> None:
    selector = load("files/kubernetes/runtimeclass.yaml")["scheduling"]["nodeSelector"]
    template = load("roles/device_plugin/vars/main.yml")["__device_plugin_handler"]
    found = NativeEnvironment().from_string(template).render(container_runtime_mode=mode)
    assert found == (selector if mode == "runtime_class" else {})


def test_rule_of_node_readiness_asks_for_the_condition_that_is_written() -> None:
    rule = load("files/kubernetes/node-readiness-rule.yaml")["spec"]
    required = [(each["type"], each["requiredStatus"]) for each in rule["conditions"]]
    assert required == [(ACCEPTED, "True")]
    assert rule["enforcementMode"] == "continuous"  # the other mode never looks again
    assert rule["taint"]["key"].startswith("readiness.k8s.io/")  # as its CRD asks
