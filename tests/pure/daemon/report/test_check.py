# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a configuration is judged by on a node, before it is in force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.report import check

from tests.fakes.daemon.gpu_builders import inventory, view

NODE = inventory(replace(view(), gpu=replace(view().gpu, uuid=f"GPU-{UUID(int=1)}")))
SHARED = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}"


class Refuses:
    """MPS, which refuses whatever it is asked for."""

    def __init__(self, *_given: object) -> None: ...

    def refuses(self, _offers: object) -> str:
        return "a client is there"


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("text", ["", SHARED])
def test_mps_is_asked_only_where_it_is_there_or_is_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, left: bool
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    concerned = bool(text) or left
    monkeypatch.setattr(check, "SETTINGS", tmp_path)
    monkeypatch.setattr(check, "within", lambda *_given: NODE)
    monkeypatch.setattr(check, "given", lambda _sockets: [])
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(check, "Reconciler", Refuses if concerned else None)
    if left:
        (tmp_path / "GPU-0.settings.json").write_text("{}")
    if not concerned:
        assert check.check(file, node=True, pods=tmp_path, state=tmp_path) == 0
        return
    with pytest.raises(ConfigError, match="a client is there"):
        check.check(file, node=True, pods=tmp_path, state=tmp_path)
