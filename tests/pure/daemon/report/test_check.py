# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a configuration is judged by on a node, before it is in force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from gpu_plugin._shared._device_plugin.held import expected
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.report import check

from tests.fakes.daemon.gpu_builders import inventory, view

UUID_1 = f"GPU-{UUID(int=1)}"
NODE = inventory(replace(view(), gpu=replace(view().gpu, uuid=UUID_1)))
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
    monkeypatch.setattr(check, "read_allocations", lambda _sockets: [])
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(check, "Reconciler", Refuses if concerned else None)
    if left:
        (tmp_path / "GPU-0.settings.json").write_text("{}")
    if not concerned:
        assert check.check(file, node=True, pods=tmp_path, state=tmp_path) == 0
        return
    with pytest.raises(ConfigError, match="a client is there"):
        check.check(file, node=True, pods=tmp_path, state=tmp_path)


def test_gpus_in_mig_mode_are_named_that_strategy_none_advertises_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parted = inventory(replace(view(), gpu=replace(view().gpu, uuid=UUID_1, mig_current=True)))
    monkeypatch.setattr(check, "SETTINGS", tmp_path)
    monkeypatch.setattr(check, "within", lambda *_given: parted)
    monkeypatch.setattr(check, "read_allocations", lambda _sockets: [])
    file = tmp_path / "config.yaml"

    def named(strategy: str, passes: str) -> tuple[str, ...]:
        plugin = f"plugin: {{deviceListStrategy: [{passes}]}}"
        file.write_text(f"flags: {{migStrategy: {strategy}, {plugin}}}")
        assert check.check(file, node=True, pods=tmp_path, state=tmp_path) == 0
        return expected(capsys.readouterr().out)

    (warning,) = named("none", "cdi-cri")
    assert warning.startswith(f"given to nobody: {UUID_1}: it is in MIG mode, and CDI describes")
    assert "Next step: set migStrategy to mixed or single" in warning
    assert named("mixed", "cdi-cri") == named("none", "envvar") == ()
