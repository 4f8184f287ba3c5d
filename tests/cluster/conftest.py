# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes of genuine clusters, where KUBE_BIN names a folder with Kubernetes' programs."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool import limits
from gpunode_tool.testing import GPUNODE, Node

from tests.bench.rounds import show
from tests.cluster.cluster import FOLDER, Cluster

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubeadm",
    "kubectl",
    "kubelet",
)
OWN_RUN = pytest.StashKey[str]()
MakeCluster = Callable[..., Cluster]
# What ends a hang alone: a busy machine is no failure.
PATIENT = {"device_plugin_wait_timeout": 600, "validate_wait_timeout": 300}


def pytest_configure(config: pytest.Config) -> None:
    """Name the run, for the processes that share its tests."""
    if "GPUNODE_RUN" not in os.environ:
        os.environ["GPUNODE_RUN"] = config.stash[OWN_RUN] = uuid.uuid4().hex[:8]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove all of a run that is ours alone."""
    if OWN_RUN in config.stash:
        words = [GPUNODE, "forget", config.stash[OWN_RUN]]
        subprocess.run(words, check=False, capture_output=True)


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


@pytest.fixture(scope="session")
def room() -> None:
    """See that this machine has room for a node of each process that runs tests, before any starts."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    try:
        limits.check(workers)
    except SystemExit as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="module")
def make_cluster(
    kube_bin: Path, room: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeCluster]:
    """Return a function that starts a bare node which can join; all are removed with the module.

    ``beside`` is for a control plane on a machine of its own, which stays up when the node is rebooted.
    """
    names: list[str] = []

    def up(name: str, *words: str, **variables: Any) -> Node:
        names.append(name)
        command = [GPUNODE, "up", name, *words, "--volume", f"{kube_bin}:{FOLDER}:ro"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return Node(name, tmp_path_factory.mktemp(name), variables)

    def make(
        name: str,
        product: str,
        gpus: int,
        *,
        beside: bool = False,
        volumes: Sequence[str] = (),
        **variables: Any,
    ) -> Cluster:
        name = f"cluster-{name}"
        common = {"device_plugin_wheelhouse": os.environ["WHEELHOUSE"], **PATIENT}
        hardware = ("--product", product, "--gpus", str(gpus))
        mounted = [word for volume in volumes for word in ("--volume", volume)]
        node = up(name, *hardware, *mounted, **{**common, **variables})
        cluster = Cluster(node, up(f"{name}-control", "--no-gpu") if beside else None)
        cluster.prepare()
        return cluster

    yield make
    for name in names:
        subprocess.run([GPUNODE, "down", name], check=False, capture_output=True)
