# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Two simulated nodes in one inventory."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpunode_tool.testing import GPUNODE, Node


class Pair(Node):
    """Plays playbooks on two nodes, in their order; all else is asked of the first."""

    def __init__(self, folder: Path, first: Node, second: Node) -> None:
        super().__init__(first.name, folder, first.variables)
        self.both = (first, second)

    def _inventory(self) -> str:
        names = [one.name for one in self.both]
        done = subprocess.run(
            [GPUNODE, "inventory", *names], check=True, capture_output=True, text=True
        )
        path = self.folder / "hosts.yml"
        path.write_text(done.stdout)
        return str(path)
