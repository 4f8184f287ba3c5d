# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What belongs to a run of the tests goes with it, whatever others do meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import folder


def test_control_groups_go_while_those_of_others_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, groups, vanishing = tmp_path / "gnt-1", tmp_path / "groups", tmp_path / "groups/pod-1"
    for path in (run, vanishing, groups / "slice/gnt-1.share"):
        path.mkdir(parents=True)
    scandir = os.scandir

    def scan(path: Any) -> Any:
        if str(path) == str(vanishing):
            vanishing.rmdir()
        return scandir(path)

    monkeypatch.setattr(folder, "CGROUPS", groups)
    monkeypatch.setattr(os, "scandir", scan)
    folder.remove(run)
    assert not vanishing.exists()
    assert not (groups / "slice/gnt-1.share").exists()
