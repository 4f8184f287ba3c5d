# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the page of the controller names is in the collection, and its commands need neither a node nor a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gpu_cluster.cli
import gpu_plugin.cli
import pytest

from tests.support.paths import REPOSITORY

PAGE = (REPOSITORY / "docs/operations/controller.md").read_text()


def test_the_files_of_the_page_are_there() -> None:
    named = set(re.findall(r"(?:\$C/|`)(files/[\w./-]+)", PAGE))
    assert len(named) > 10
    assert [one for one in named if not (REPOSITORY / one).exists()] == []


def test_commands_without_a_node(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="0"):
        gpu_cluster.cli.main(["show", "--help"])
    (tmp_path / "config.yaml").write_text("version: v1\n")
    assert gpu_plugin.cli.main(["check-config", str(tmp_path / "config.yaml")]) == 0
    assert gpu_cluster.cli.main(["webhook", "--show-node", "node-1"]) == 0
    assert "# node-1, from HAMi's configuration" in capsys.readouterr().out
