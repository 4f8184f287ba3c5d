# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``check-config --node`` where the driver is below another root than /."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.report import check

from tests.fakes.daemon.gpu_builders import inventory, view

NODE = inventory(view())
SHARED = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}"


def checked(folder: Path, text: str) -> None:
    file = folder / "config.yaml"
    file.write_text(text)
    check.check(file, node=True, pods=folder, state=folder)


def test_driver_root_without_a_driver_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "SETTINGS", tmp_path)
    monkeypatch.setattr(check, "within", lambda *_given: NODE)
    monkeypatch.setattr(check, "read_allocations", lambda _sockets: [])
    root = tmp_path / "driver"
    text = f"flags: {{nvidiaDriverRoot: {root}}}"
    with pytest.raises(ConfigError, match=f"flags.nvidiaDriverRoot: no driver is below {root}"):
        checked(tmp_path, text)
    (root / "usr/lib64").mkdir(parents=True)
    (root / "usr/lib64/libnvidia-ml.so.1").touch()
    checked(tmp_path, text)


def test_mps_of_a_driver_below_another_root_is_refused_by_name(tmp_path: Path) -> None:
    root = tmp_path / "driver"
    for path in ("usr/lib64/libnvidia-ml.so.1", "usr/bin/nvidia-cuda-mps-control"):
        (root / path).parent.mkdir(parents=True)
        (root / path).touch()
    text = f"flags: {{nvidiaDriverRoot: {root}}}\n{SHARED}"
    with pytest.raises(ConfigError, match=f"it is below {root} alone"):
        checked(tmp_path, text)
