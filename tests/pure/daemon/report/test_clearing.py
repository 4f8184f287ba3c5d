# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who may clear a GPU's faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.report import faults


def test_clearing_is_for_root_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NodeError, match=r"for root only.*id 1000.*sudo gpu-plugin health clear"):
        faults.clear("1", tmp_path / "status.json")
