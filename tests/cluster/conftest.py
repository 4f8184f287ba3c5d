# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes of genuine clusters, where KUBE_BIN names a folder with Kubernetes' programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import GPUNODE, Node

from tests.cluster.cluster import FOLDER, Cluster
from tests.bench.rounds import show

PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubeadm",
    "kubectl",
    "kubelet",
)
MakeCluster = Callable[..., Cluster]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what the endurance tests have measured."""
    show(terminalreporter)


@pytest.fixture(scope="session")
def kube_bin() -> Path:
    """The folder with Kubernetes' programs; without it there is nothing to test with."""
    named = os.environ.get("KUBE_BIN", "")
    if not named:
        pytest.skip(f"KUBE_BIN is not set: name a folder with genuine {', '.join(PROGRAMS)}")
    missing = [one for one in PROGRAMS if not os.access(Path(named) / one, os.X_OK)]
    assert not missing, f"KUBE_BIN={named} has no {', '.join(missing)}"
    return Path(named).resolve()


@pytest.fixture(scope="module")
def make_cluster(kube_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeCluster]:
    """Return a function that starts a bare node which can join; all are removed with the module."""
    names: list[str] = []

    def make(name: str, product: str, gpus: int, **variables: Any) -> Cluster:
        name = f"cluster-{name}"
        subprocess.run([GPUNODE, "down", name], check=False, capture_output=True)
        names.append(name)
        words = ["--product", product, "--gpus", str(gpus), "--volume", f"{kube_bin}:{FOLDER}:ro"]
        subprocess.run([GPUNODE, "up", name, *words], check=True, capture_output=True)
        common = {"device_plugin_wheelhouse": os.environ["WHEELHOUSE"]}
        node = Node(name, tmp_path_factory.mktemp(name), {**common, **variables})
        cluster = Cluster(node)
        cluster.prepare()
        return cluster

    yield make
    for name in names:
        subprocess.run([GPUNODE, "down", name], check=False, capture_output=True)
