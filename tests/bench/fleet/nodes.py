# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The two simulated nodes that the fleet is made from: one as it was installed, one in service."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpunode_tool.inside import container
from gpunode_tool.podman import podman

from tests.support.paths import REPOSITORY

GPUNODE = str(REPOSITORY / "tests/fakes/node/gpunode")
PRODUCT, GPUS = "h100-80", 8
CUT = {
    "devices": [4, 5, 6, 7],
    "mig-enabled": True,
    "mig-devices": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
}
WHOLE = {"devices": [0, 1, 2, 3], "mig-enabled": False, "mig-devices": {}}
VARIABLES: dict[str, Any] = {
    "mig_config": {"version": "v1", "mig-configs": {"half": [WHOLE, CUT]}},
    "mig_selected": "half",
    "node_labels_output": "file",
    "gpu_nodes_require_gpu": True,
    "nvidia_driver_source": "distribution",  # a node has Debian's archive, and not NVIDIA's
}


@contextlib.contextmanager
def node(name: str) -> Iterator[str]:
    """A bare node of that name; it is removed at the end."""
    gpunode("down", name)
    gpunode("up", name, "--product", PRODUCT, "--gpus", str(GPUS), check=True)
    try:
        yield name
    finally:
        gpunode("down", name)


def bring_up(name: str, folder: Path) -> None:
    """Bring a node into service, over SSH."""
    found = inventory(name)
    found["gpu_nodes"]["vars"] = variables()
    path = folder / "up.json"
    path.write_text(json.dumps(found))
    words = ["ansible-playbook", "-i", str(path), "gpu.node.gpu_nodes"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout[-4000:])


def inventory(name: str) -> dict[str, Any]:
    done = subprocess.run([GPUNODE, "inventory", name], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def variables() -> dict[str, Any]:
    return {**VARIABLES, "device_plugin_wheelhouse": os.environ["WHEELHOUSE"]}


def process(name: str) -> str:
    """Return the process that is the node's first."""
    return podman("inspect", "--format", "{{.State.Pid}}", container(name))


def gpunode(*words: str, check: bool = False) -> None:
    subprocess.run([GPUNODE, *words], check=check, capture_output=not check)
