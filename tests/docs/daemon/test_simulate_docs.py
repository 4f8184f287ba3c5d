# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page's example is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from gpu_cluster import cli

from tests.support.paths import REPOSITORY

ROOT = REPOSITORY
PAGE = (ROOT / "docs/fractions/simulate.md").read_text()


def test_the_pages_example_is_true(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, pods = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[:2]
    found = re.search(r"```console\n\$ gpu-cluster (.*?)\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    (tmp_path / "nodes.yaml").write_text(nodes)
    (tmp_path / "pods.yaml").write_text(pods)
    monkeypatch.chdir(tmp_path)
    assert cli.main(found[1].split()) == 3
    assert capsys.readouterr().out == found[2]
