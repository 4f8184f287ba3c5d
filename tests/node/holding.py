# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Services that have a GPU open, as jobs have."""

from __future__ import annotations

import json

from gpunode_tool.testing import Node

from tests.support.waiting import eventually

# Without a driver behind it a device cannot be opened for more than its path. It has started once it is open.
HOLD = (
    "import os, signal, socket; os.open('/dev/nvidia{gpu}', os.O_PATH);"
    " notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM);"
    " notify.sendto(b'READY=1', os.environ['NOTIFY_SOCKET']); signal.pause()"
)


def hold(node: Node, unit: str, gpu: int = 0) -> None:
    """Start a service that has a GPU open, and wait until it has."""
    words = ("--quiet", "--collect", "--service-type=notify", f"--unit={unit}")
    node.run("systemd-run", *words, "python3", "-c", HOLD.format(gpu=gpu))


def drive(node: Node, unit: str, gpu: int = 0) -> None:
    """Start a service with a process that the driver knows on a GPU, and wait until it does."""
    before = processes(node)
    if "LoadState=loaded" in node.run("systemctl", "show", unit, "--property=LoadState"):
        node.run("systemctl", "start", unit)
    else:
        words = ("--quiet", f"--unit={unit}", "/opt/nvsim/bin/nvsimctl", "hold", str(gpu))
        node.run("systemd-run", *words)
    eventually(lambda: processes(node) > before)


def processes(node: Node) -> int:
    """Return how many processes the driver has on GPUs."""
    return len(json.loads(node.run("/opt/nvsim/bin/nvsimctl", "status"))["processes"])
