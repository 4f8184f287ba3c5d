# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""molecule's gpu-vm on two machines at once, of two systems and two container runtimes, reached by SSH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpunode_tool.paths import KEY, REPOSITORY
from gpunode_tool.testing import GPUNODE, Node

MakeNode = Callable[..., Node]


@pytest.fixture
def home() -> Iterator[str]:
    """Return a home whose path is short enough for the sockets that SSH makes there."""
    with tempfile.TemporaryDirectory(prefix="vm-") as folder:
        yield folder


def port(node: Node) -> int:
    """Return the port of this machine that leads to the node."""
    words = [GPUNODE, "inventory", node.name]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: int = json.loads(done.stdout)["gpu_nodes"]["hosts"][node.name]["ansible_port"]
    return found


def with_podman(node: Node) -> Node:
    """Give a node podman in the place of containerd."""
    apt = "export DEBIAN_FRONTEND=noninteractive; apt-get -q update && apt-get -qy"
    node.run(
        "sh", "-c", f"{apt} purge containerd && {apt} install --no-install-recommends podman crun"
    )
    return node


@pytest.mark.long
@pytest.mark.node
def test_the_gpu_vm_scenario_passes_on_two_systems_with_two_runtimes(
    make_node: MakeNode, tmp_path: Path, home: str
) -> None:
    nodes = [
        make_node("vm-a", "a100-40", 2),
        with_podman(make_node("vm-b", "l40s", 1, suite="bookworm")),
    ]
    (tmp_path / "vars.yml").write_text(
        json.dumps(
            {"gpu_nodes_require_gpu": True, "device_plugin_wheelhouse": os.environ["WHEELHOUSE"]}
        )
    )
    env = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "GPU_VM_HOSTS": ",".join(f"root@127.0.0.1:{port(one)}" for one in nodes),
        "GPU_VM_KEY": str(KEY),
        "GPU_VM_VARS": str(tmp_path / "vars.yml"),
        "HOME": home,
    }
    report = REPOSITORY / ".cache/gpu-vm.md"
    report.unlink(missing_ok=True)
    words = [str(shutil.which("molecule")), "test", "--scenario-name", "gpu-vm"]
    done = subprocess.run(
        words, cwd=REPOSITORY, env=env, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-10000:] + done.stderr[-10000:]
    first, second = report.read_text().splitlines()[2:4]
    assert first.startswith("| 1 | Debian 13")
    assert "2 x NVIDIA A100" in first
    assert "containerd 1.7" in first
    assert second.startswith("| 2 | Debian 12")
    assert "1 x NVIDIA L40S" in second
    assert "podman 4" in second
    for row in (first, second):
        assert row.endswith("| passed |")
        assert "failed" not in row
    assert "127.0.0.1" not in report.read_text()
