# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin mig-label`` on a node whose kubelet listens at a socket of the test."""

from __future__ import annotations

import os
import sys
from typing import Any

from gpu_plugin._shared._base.boot import PROGRAM
from gpu_plugin._shared._machine.host import Completed
from gpu_plugin._shared._mig.machine import nvml
from gpu_plugin._shared._node.users.allocated import ROOTS, SOCKET
from gpu_plugin.boot import label
from gpu_plugin.cli import main


class Node(label.Quiet):
    """This machine, with a kubelet."""

    def exists(self, path: str) -> bool:
        """As of the machine."""
        return path == f"{ROOTS[0]}/{SOCKET}" or super().exists(path)

    def run(self, argv: Any, **more: Any) -> Completed:
        """As of the machine, where the program is this one."""
        if argv[0] == PROGRAM:
            argv = [sys.executable, "-m", "gpu_plugin", *argv[1:-1], KUBELET]
        return super().run(argv, **more)


if __name__ == "__main__":
    KUBELET = sys.argv.pop(1)
    nvml.BEFORE = os.environ["BEFORE"]
    label.PAUSES, label.TICK = (0.3, 0.3), 0.1
    label.Quiet = Node  # type: ignore[misc]
    sys.exit(main(["mig-label", *sys.argv[1:]]))
