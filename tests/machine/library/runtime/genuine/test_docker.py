# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What genuine dockerd takes, and starts with, beside what the module writes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.runtime.genuine_runtimes import (
    DAEMON,
    WRAPPER,
    GenuineRuntimes,
    converge,
    with_cdi,
)
from tests.support import helper_process

Make = Callable[..., GenuineRuntimes]
# What a machine without networks and disks of its own lets a daemon do.
FLAGS = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=vfs")
OTHERS: dict[str, dict[str, Any]] = {
    "shim": {"runtimeType": "io.containerd.runc.v2"},
    "options": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "/x"}},
    "another path": {"path": "/opt/nvidia-container-runtime", "runtimeArgs": ["--debug"]},
}


def started(node: GenuineRuntimes) -> str:
    """Start dockerd until it has tried its runtimes, or ends; return what it says."""
    program = node.programs["dockerd"]
    words = [*node.inside(), "unshare", "--net", str(program), *FLAGS, "--containerd=/nothing"]
    path = f"{program.parent}:{os.environ['PATH']}"
    said = ""
    with helper_process.start(
        words, stderr=subprocess.PIPE, text=True, env={"PATH": path}, ready=helper_process.executed
    ) as daemon:
        assert daemon.stderr is not None
        for line in daemon.stderr:
            said += line
            if "features]" in line:  # it asks each runtime once it has taken all of them
                break
        daemon.kill()
    return said


@with_cdi
@pytest.mark.parametrize("other", OTHERS)
def test_entry_of_another_kind_is_replaced_and_comes_back(
    machine: Make, suite: str, other: str
) -> None:
    text = json.dumps({"runtimes": {"nvidia": OTHERS[other]}, "debug": True}, indent=4)
    node = machine(suite, {DAEMON: text})
    node.install_docker()
    node.install_toolkit()
    before = node.files()
    converge(node, name="docker", mode="runtime_class")
    entry = json.loads(node.files()[DAEMON])["runtimes"]["nvidia"]
    assert entry["path"] == WRAPPER
    assert entry.get("runtimeArgs") == OTHERS[other].get("runtimeArgs")
    assert "features]" in started(node)
    assert converge(node, name="docker", mode="runtime_class") == []
    # Somebody edits the file; what was there comes back all the same.
    node.put(DAEMON, node.files()[DAEMON].replace("true", "false", 1))
    converge(node, name="docker", state="absent")
    had = json.loads(before[DAEMON])
    left = json.loads(node.files()[DAEMON])
    assert left["runtimes"] == had["runtimes"]


@with_cdi
def test_dockerd_dies_of_a_path_beside_another_kind(machine: Make, suite: str) -> None:
    entry = {**OTHERS["shim"], "path": WRAPPER}
    node = machine(suite, {DAEMON: json.dumps({"runtimes": {"nvidia": entry}})})
    node.install_docker()
    assert "cannot configure both path and runtimeType" in started(node)
