# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster of two nodes, and the module run against it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import basic
from ansible_collections.gpu.node.plugins.module_utils._capability.drain import asking
from ansible_collections.gpu.node.plugins.modules import drain as module

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
def drain(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Drain:
    """Return a function that runs the module on node-1 and returns its answer, with its warnings."""

    def run(*, check: bool = False, **options: Any) -> dict[str, Any]:
        told = {"_ansible_check_mode": check, "_ansible_remote_tmp": str(tmp_path)}
        given = {"node": "node-1", "kubeconfig": str(cluster.kubeconfig), "retries": 0, **options}
        arguments = {"ANSIBLE_MODULE_ARGS": {**given, **told, "_ansible_diff": True}}
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps(arguments).encode())
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy")
        said: list[str] = []
        monkeypatch.setattr(basic.AnsibleModule, "warn", lambda _self, text: said.append(text))
        monkeypatch.setattr(asking, "FIRST_PAUSE", 0.05)
        capsys.readouterr()
        with pytest.raises(SystemExit):
            module.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return {**answer, "warnings": said}

    return run
