# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Simulated nodes for the integration tests: bare ones, and ones that the playbook has brought up.

A bring-up takes most of a minute. Where it is not the subject, it is done once in a run, for each kind of node, and
kept; tests begin at a boot of what was kept. A run has the name in GPUNODE_RUN, where lanes share one, and nothing of
it is seen by another one.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool import limits, snapshots
from gpunode_tool.paths import REPOSITORY, place, run_of_this_process
from gpunode_tool.testing import GPUNODE, Node

from tests.support.waiting import eventually

OWN_RUN = pytest.StashKey[str]()
AT_ONCE = 2  # nodes of a test
MakeNode = Callable[..., Node]
# What ends a hang alone: a busy machine is no failure.
PATIENT = {"device_plugin_wait_timeout": 600, "validate_wait_timeout": 300}


def pytest_configure(config: pytest.Config) -> None:
    """Name the run, for the processes that share its tests, and remove what one left that was killed."""
    if "GPUNODE_RUN" not in os.environ:
        os.environ["GPUNODE_RUN"] = config.stash[OWN_RUN] = run_of_this_process()
        gpunode("forget", "--killed")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove all of a run that is ours alone."""
    if OWN_RUN in config.stash:
        gpunode("forget", config.stash[OWN_RUN])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with nodes, which take minutes: what takes seconds fills up the end."""
    items.sort(key=lambda item: item.get_closest_marker("node") is None)


def gpunode(*words: str, check: bool = True) -> str:
    """Run the tool and return what it prints."""
    done = subprocess.run([GPUNODE, *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="session")
def room() -> None:
    """See that this machine has room for the nodes of all tests that run at a time, before any starts."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    try:
        limits.check(AT_ONCE * workers)
    except SystemExit as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def begin(room: None, tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Return a function that starts a node with such options; all are removed afterwards."""
    names = []

    def up(name: str, *options: str, **variables: Any) -> Node:
        name = f"it-{name}"
        names.append(name)
        gpunode("up", name, *options)
        shutil.rmtree(tmp_path / name, ignore_errors=True)  # of one that was there before
        (tmp_path / name).mkdir()
        common = {"device_plugin_wheelhouse": os.environ["WHEELHOUSE"], **PATIENT}
        return Node(name, tmp_path / name, {**common, **variables})

    yield up
    for name in dict.fromkeys(names):
        gpunode("down", name, check=False)


@pytest.fixture
def make_node(begin: Callable[..., Node]) -> MakeNode:
    """Return a function that starts a bare node."""

    def make(name: str, product: str, gpus: int, suite: str = "trixie", **variables: Any) -> Node:
        hardware = ("--product", product, "--gpus", str(gpus)) if gpus else ("--no-gpu",)
        return begin(name, "--suite", suite, *hardware, **variables)

    return make


@pytest.fixture
def brought_up(begin: Callable[..., Node], make_node: MakeNode) -> MakeNode:
    """Return a function that starts a node in service, as the playbook has made one of its kind in this run."""

    def start(name: str, product: str, gpus: int, **variables: Any) -> Node:
        snapshot = snapshots.name_of(gpunode("image"), product, gpus, variables)
        with locked(snapshot):
            if not snapshots.exists(snapshot):
                first = make_node(f"first-{name}", product, gpus, **variables)
                up = first.play()
                assert up.ok, up.message()
                gpunode("snapshot", first.name, snapshot)
                gpunode("down", first.name)
        node = begin(name, "--snapshot", snapshot, **variables)
        eventually(lambda: node.status()["state"], "serving")
        return node

    return start


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle of this collection for nodes with Debian 13, made and verified as a user does."""
    folder = tmp_path_factory.mktemp("bundle")
    words = ("ansible-galaxy", "collection", "build", "--output-path", str(folder / "release"))
    subprocess.run([*words, str(REPOSITORY)], check=True, capture_output=True)
    (tarball,) = (folder / "release").glob("*.tar.gz")
    given = {"bundle_path": str(folder / "bundle"), "bundle_collection": str(tarball)}
    for state in ("present", "verified"):
        asked = json.dumps({**given, "bundle_pythons": ["3.13"], "bundle_state": state})
        words = ("ansible-playbook", "gpu.node.bundle", "--extra-vars", asked)
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bundle"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Let no other test of this run do the same meanwhile."""
    lock = place() / f"{name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
