# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster of two nodes, and the module run against it as Ansible runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for standin_cluster
from standin_cluster import Cluster

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
def drain(cluster: Cluster, tmp_path: Path) -> Drain:
    """Return a function that runs the module on node-1 and returns its answer."""

    def run(*, check: bool = False, **options: Any) -> dict[str, Any]:
        told = {"_ansible_check_mode": check, "_ansible_remote_tmp": str(tmp_path)}
        given = {"node": "node-1", "kubeconfig": str(cluster.kubeconfig), "retries": 0, **options}
        path = tmp_path / "arguments.json"
        path.write_text(
            json.dumps({"ANSIBLE_MODULE_ARGS": {**given, **told, "_ansible_diff": True}})
        )
        done = subprocess.run(
            [sys.executable, "-m", "ansible_collections.gpu.node.plugins.modules.drain", str(path)],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return run
