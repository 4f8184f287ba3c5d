# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What 'gpu-plugin status' tells of the CDI specification."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_plugin._shared._cdi import boot as cdi_boot
from gpu_plugin._shared._cdi.boot import Options
from gpu_plugin.cdi import files as cdi_state


def specification(folder: Path, *files: Path) -> Path:
    """Write the options and a specification that mounts files; return the options' path."""
    spec = {
        "devices": [{"name": "0"}, {"name": "GPU-1"}],
        "containerEdits": {"mounts": [{"hostPath": str(one)} for one in files]},
    }
    (folder / "nvidia.json").write_text(json.dumps(spec))
    (folder / "cdi.json").write_text(cdi_boot.dump(Options(str(folder / "nvidia.json"))))
    return folder / "cdi.json"


def test_devices_are_listed_and_a_library_of_another_driver_is_missed(tmp_path: Path) -> None:
    there, gone = tmp_path / "libcuda.so.550.1", tmp_path / "libcuda.so.535.1"
    there.write_text("")
    found = cdi_state.read(specification(tmp_path, there, gone, tmp_path / "socket"))
    assert found == {
        "path": str(tmp_path / "nvidia.json"),
        "failed": False,
        "devices": ["0", "GPU-1"],
        "missing": [str(gone)],
    }


def test_a_hook_that_is_gone_is_missed(tmp_path: Path) -> None:
    config = specification(tmp_path)
    spec = json.loads((tmp_path / "nvidia.json").read_text())
    spec["containerEdits"]["hooks"] = [{"path": str(tmp_path / "hook")}]
    (tmp_path / "nvidia.json").write_text(json.dumps(spec))
    found = cdi_state.read(config)
    assert found is not None
    assert found["missing"] == [str(tmp_path / "hook")]
    (tmp_path / "hook").write_text("")
    found = cdi_state.read(config)
    assert found is not None
    assert found["missing"] == []


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"devices": 3}', '{"devices": [{}]}'])
def test_damaged_file_has_no_devices(tmp_path: Path, text: str | None) -> None:
    config = specification(tmp_path)
    if text is None:
        (tmp_path / "nvidia.json").unlink()
    else:
        (tmp_path / "nvidia.json").write_text(text)
    found = cdi_state.read(config)
    assert found is not None
    assert found["devices"] == []


def test_nothing_is_told_where_nothing_keeps_one(tmp_path: Path) -> None:
    assert cdi_state.read(tmp_path / "cdi.json") is None
    (tmp_path / "cdi.json").write_text("{")
    assert cdi_state.read(tmp_path / "cdi.json") is None
