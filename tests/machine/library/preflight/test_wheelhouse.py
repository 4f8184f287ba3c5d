# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node takes from its package sources although it has a wheelhouse is said beforehand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine import node
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host

PLUGIN = ("device_plugin",)
GIVEN = {"device_plugin_wheelhouse": "/srv/bundle/wheels"}


class VenvHost(Host):
    """This machine, whose Python makes environments or, as Debian's without python3-venv, does not."""

    def __init__(self, *, makes: bool, apt: bool = True) -> None:
        super().__init__()
        self._makes, self._apt = makes, apt

    def run(self, argv: Any, **more: Any) -> Completed:
        if "import ensurepip, venv" in argv:
            return Completed(0 if self._makes else 1, "", "")
        return super().run(argv, **more)

    def which(self, name: str) -> str | None:
        if name == "apt-get":
            return "/usr/bin/apt-get" if self._apt else None
        return super().which(name)


@pytest.mark.parametrize(
    ("machine", "values", "said"),
    [
        (VenvHost(makes=False), GIVEN, True),
        (VenvHost(makes=True), GIVEN, False),
        (VenvHost(makes=False), {}, False),
        (VenvHost(makes=False, apt=False), GIVEN, False),
    ],
    ids=["lacks it", "has it", "has an index", "is not Debian's"],
)
def test_what_a_wheelhouse_does_not_bring_is_said(
    machine: VenvHost,
    values: dict[str, Any],
    said: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node, "ENVIRONMENT", str(tmp_path))
    found = node.warnings(machine, {**values, "device_plugin_python": sys.executable}, PLUGIN)
    assert len(found) == said
    assert all("apt installs python3-venv" in one for one in found)
    # Once the environment is there, nothing more is taken from anywhere.
    (tmp_path / "current").mkdir()
    (tmp_path / "current/.complete").touch()
    assert node.warnings(machine, values, PLUGIN) == ()


def test_the_question_is_one_that_python_answers() -> None:
    subprocess.run([sys.executable, "-c", "import ensurepip, venv"], check=True)
