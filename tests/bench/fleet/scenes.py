# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The two runs that are measured: the plan of a bring-up, and a run where nothing has drifted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from . import nodes
from .measure import Cost, changed, measure

LIGHT = {
    "ansible_connection": "light",
    "ansible_python_interpreter": "/usr/bin/python3",
    "ansible_user": "root",
}
PLAIN = {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}


@dataclass(frozen=True)
class Scene:
    """A folder with the answers of a node to one kind of run."""

    name: str
    folder: Path
    options: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    def begin(self, node: str) -> None:
        """Have the fleet's commands run in a node."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "variables").write_text(json.dumps({**nodes.variables(), **LIGHT}))
        (self.folder / "answers").mkdir(exist_ok=True)
        (self.folder / "pid").write_text(nodes.process(node))

    def genuine(self, number: int, **settings: str) -> Cost:
        """Run on that node itself, under so many names; the first run's answers are kept."""
        cost = self.run(number, **PLAIN, **settings)
        if not self.options and changed(self.folder):
            raise RuntimeError("what should have found nothing to change has changed the node")
        return cost

    def end(self) -> None:
        """Have the fleet's commands answered as they were."""
        (self.folder / "pid").unlink(missing_ok=True)

    def run(self, number: int, **settings: str) -> Cost:
        return measure(self.folder, number, *self.options, **{**dict(self.settings), **settings})


def scenes(folder: Path) -> tuple[Scene, Scene]:
    return Scene("plan", folder / "plan", ("--check",)), Scene("no-change", folder / "same")


def without_pipelining(folder: Path) -> Scene:
    """Return the run where nothing has drifted, with modules that are files."""
    return Scene("no-change", folder / "files", settings=(("ANSIBLE_PIPELINING", "false"),))
