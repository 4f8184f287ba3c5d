# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node offers, what its pods have of it, and the pods that try the rest."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cluster import trial
from hypothesis import given
from hypothesis import strategies as st

GPU = "nvidia.com/gpu"


def container(count: object, name: str = GPU) -> dict[str, Any]:
    return {"name": "main", "resources": {"limits": {name: count}}}


def test_only_what_can_be_had_is_offered() -> None:
    found = {GPU: "8", "nvidia.com/mig-1g.10gb": "0", "nvidia.com/odd": "1Ki", "cpu": "8"}
    assert trial.offered({"status": {"allocatable": found}}) == {GPU: 8}
    assert trial.offered({}) == {}


def test_what_pods_have_is_what_the_scheduler_counts() -> None:
    pods: list[dict[str, Any]] = [
        {"spec": {"containers": [container("1"), container(2)]}, "status": {"phase": "Running"}},
        {"spec": {"containers": [container("1")], "initContainers": [container("3")]}},
        {"spec": {"containers": [container("5")]}, "status": {"phase": "Failed"}},
        {"spec": {"containers": [container("1", "cpu"), {"name": "plain"}]}},
    ]
    assert trial.used(pods) == {GPU: 6}


@given(st.text("abcXYZ019.-_", min_size=1, max_size=80))
def test_a_pod_has_a_name_that_is_allowed_whatever_the_resource_is_called(name: str) -> None:
    """Names of pods are those of DNS: lower-case letters, digits and dashes."""
    pod = trial.manifest("node-1", f"nvidia.com/{name}", "default", "pause", [], 60)
    prefix = pod["metadata"]["generateName"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", f"{prefix}x7k2p")
    assert len(prefix) <= 58


@pytest.mark.parametrize(
    ("phase", "to_the_end", "proven"),
    [
        ("Pending", False, False),
        ("Running", False, True),
        ("Running", True, False),
        ("Succeeded", True, True),
        ("Failed", False, False),
    ],
)
def test_a_command_has_to_end_and_a_service_to_run(
    phase: str, to_the_end: bool, proven: bool
) -> None:
    pod = {"status": {"phase": phase}}
    assert trial.proven(pod, to_the_end=to_the_end) == proven
    assert trial.failed(pod) == (phase == "Failed")
