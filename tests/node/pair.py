# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Two simulated nodes in one inventory."""

from __future__ import annotations

from pathlib import Path

from gpunode_tool.testing import Node


class Pair(Node):
    """Plays playbooks on two nodes, in their order; all else is asked of the first."""

    def __init__(self, folder: Path, first: Node, second: Node) -> None:
        super().__init__(first.name, folder, first.variables)
        self.both = (first, second)

    def _names(self) -> list[str]:
        return [one.name for one in self.both]
