# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What to try on the demo's node, and the two commands that it takes: ``./node`` runs on it, ``./play`` a playbook."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

SETTINGS = {
    "ANSIBLE_STDOUT_CALLBACK": "gpu.node.progress",
    "ANSIBLE_INJECT_FACT_VARS": "false",
    "ANSIBLE_PIPELINING": "true",
    "ANSIBLE_HOST_KEY_CHECKING": "false",
    "ANSIBLE_LOCALHOST_WARNING": "false",
}
# Each is a title and a command of a shell in the demo's folder; the second is for GPUs with MIG.
STOPS = (
    (
        "a pod",
        "./node standin-kubelet admit training-1 --request nvidia.com/gpu=1"
        " && ./node standin-kubelet resources",
    ),
    (
        "a MIG layout",
        './node standin-kubelet release training-1; sed -i \'s/selected.*/selected": "each"/\''
        " group_vars/gpu_nodes.yml && ./play gpu.node.mig",
    ),
    ("a drift", "./node rm /etc/cdi/nvidia.yaml && ./play gpu.node.gpu_nodes"),
    ("an XID", "./node /opt/nvsim/bin/nvsimctl xid 0 79 && ./node gpu-plugin health"),
    ("the report", "./play gpu.node.report    # then open gpu-report.html"),
)


def stops(*, mig: bool) -> list[tuple[str, str]]:
    """Return what can be tried, in this order."""
    return [one for one in STOPS if mig or one[0] != "a MIG layout"]


def write(folder: Path, on_node: list[str]) -> None:
    """Write both commands into a folder; ``on_node`` are the words that run others on the node."""
    kept = {one: os.environ[one] for one in ("PATH", "ANSIBLE_COLLECTIONS_PATH", "GPUNODE_CACHE")}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in (SETTINGS | kept).items()]
    _script(folder / "node", [*lines, f'exec {shlex.join(on_node)} "$@"'])
    _script(folder / "play", [*lines, 'exec ansible-playbook --inventory hosts.yml "$@"'])


def _script(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(["#!/bin/sh", 'cd "$(dirname "$0")"', *lines, ""]))
    path.chmod(0o755)
