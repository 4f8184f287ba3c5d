# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster of two nodes, and the module run against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate_pods import (
    capability as validate_pods,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain import capability
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain import machine as evictions
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine import asking
from ansible_collections.gpu.node.plugins.modules import drain as drain_module
from ansible_collections.gpu.node.plugins.modules import validate_pods as pods_module

from tests.fakes.clock import Clock
from tests.fakes.kubernetes.standin_cluster import Cluster
from tests.fakes.library.in_process import said_by

Drain = Callable[..., dict[str, Any]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of node-1 and node-2."""
    one = Cluster(tmp_path)
    one.add_node("node-1")
    one.add_node("node-2")
    yield one
    one.stop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the modules; its ``at`` is what happens while they wait."""
    one = Clock()
    for module in (asking, capability, evictions, validate_pods):
        monkeypatch.setattr(module, "time", one)
    return one


@pytest.fixture
def run_module(tmp_path: Path, clock: Clock) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a module and returns its answer, with its warnings."""

    def run(module: Any, given: dict[str, Any], *, check: bool) -> dict[str, Any]:
        warnings: list[str] = []
        answer = json.loads(said_by(module, given, tmp_path, warnings, check_mode=check))
        return {**answer, "warnings": warnings}

    return run


@pytest.fixture
def drain(cluster: Cluster, run_module: Callable[..., dict[str, Any]]) -> Drain:
    """Return a function that drains node-1."""

    def run(*, check: bool = False, **options: Any) -> dict[str, Any]:
        given = {"node": "node-1", "kubeconfig": str(cluster.kubeconfig), "retries": 0, **options}
        return run_module(drain_module, given, check=check)

    return run


@pytest.fixture
def validate(cluster: Cluster, run_module: Callable[..., dict[str, Any]]) -> Drain:
    """Return a function that runs pods on node-1."""

    def run(*, check: bool = False, **options: Any) -> dict[str, Any]:
        given = {"node": "node-1", "kubeconfig": str(cluster.kubeconfig), "image": "pause"}
        return run_module(pods_module, {**given, **options}, check=check)

    return run
