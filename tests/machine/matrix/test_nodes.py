# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The whole playbook on a simulated node, under each Python that a node may have: containerd, packages, services."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environments.environment import interpreter
from tests.environments.needed import made, python_needed
from tests.support.paths import REPOSITORY

TOOL = str(REPOSITORY / "tests/fakes/node/gpunode")
NODE_CORES = {
    "3.9": "core-2.19",
    "3.10": "core-2.20",
    "3.11": "core-2.21",
    "3.12": "core-2.19",
    "3.13": "core-2.20",
}
Start = Callable[[str], dict[str, Any]]


def home(version: str) -> Path:
    """Return the folder of a Python, which the node sees at the same place."""
    with python_needed():
        found = interpreter(version)
    words = [found, "-c", "import sys; print(sys.base_prefix)"]
    prefix = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    if prefix == "/usr":
        pytest.skip(
            f"Python {version} is this machine's own, which a node of another system can't run"
        )
    return Path(prefix)


@pytest.fixture
def start_node() -> Iterator[Start]:
    """Return a function that starts a node with such a Python, and returns how it is reached."""
    names = []

    def up(version: str) -> dict[str, Any]:
        name, prefix = f"matrix-{version.replace('.', '-')}", home(version)
        names.append(name)
        words = [TOOL, "up", name, "--product", "a100-40", "--gpus", "2"]
        subprocess.run([*words, "--volume", f"{prefix}:{prefix}:ro"], check=True)
        done = subprocess.run([TOOL, "inventory", name], check=True, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(done.stdout)["gpu_nodes"]["hosts"][name]
        return {**found, "ansible_python_interpreter": f"{prefix}/bin/python{version}"}

    yield up
    for name in names:
        subprocess.run([TOOL, "down", name], check=True)


def play(folder: Path, core: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook and return what it printed."""
    words = [str(core / "bin/ansible-playbook"), "--inventory", "hosts.json"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"ANSIBLE_HOME": str(folder), "ANSIBLE_PIPELINING": "true"}
    words += ["gpu.node.gpu_nodes", *options]
    return subprocess.run(words, cwd=folder, env=env, check=False, capture_output=True, text=True)


@pytest.mark.long
@pytest.mark.node
@pytest.mark.parametrize("version", NODE_CORES)
def test_a_node_is_brought_up_under_each_python(
    version: str, tmp_path: Path, start_node: Start
) -> None:
    core = made(NODE_CORES[version])
    layout = [{"devices": [1], "mig-enabled": True, "mig-devices": {"1g.5gb": 2, "3g.20gb": 1}}]
    variables = {
        "device_plugin_python": "/usr/bin/python3",
        "device_plugin_wheelhouse": os.environ["WHEELHOUSE"],
        "gpu_nodes_require_gpu": True,
        "mig_config": {"version": "v1", "mig-configs": {"half": layout}},
    }
    hosts = {"node": start_node(version)}
    (tmp_path / "hosts.json").write_text(
        json.dumps({"gpu_nodes": {"hosts": hosts, "vars": variables}})
    )
    first = play(tmp_path, core)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "node: ready" in first.stdout
    again = play(tmp_path, core)
    assert again.returncode == 0, again.stdout + again.stderr
    assert " changed=0 " in again.stdout
    assert "DEPRECATION" not in first.stdout + first.stderr
