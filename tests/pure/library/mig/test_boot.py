# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What makes a layout survive a reboot."""

from __future__ import annotations

import configparser

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import BootState
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._mig.boot import (
    BOOT,
    TEXTS,
    UNIT,
    UNIT_TEXT,
)
from ansible_collections.gpu.node.plugins.module_utils._mig.config import Declared

WANTED = Declared({"version": "v1"}, "half").dump()
ON = {"UnitFileState": "enabled", "ActiveState": "active"}
THERE = BootState(WANTED, TEXTS, {UNIT: ON}, True)
NONE = BootState(None, {UNIT: None}, {}, True)


def actions(
    state: BootState, wanted: str | None = WANTED, *, check_mode: bool = False
) -> list[str]:
    return [step.action for step in BOOT.plan(state, wanted, TEXTS, check_mode=check_mode)]


def test_fresh_node_gets_file_and_unit() -> None:
    assert actions(NONE) == ["boot_config", "boot_unit", "boot_enable"]


def test_node_that_has_them_gets_nothing() -> None:
    assert actions(THERE) == []


def test_each_drift_is_repaired_alone() -> None:
    assert actions(THERE._replace(config="{}")) == ["boot_config"]
    assert actions(THERE._replace(units={UNIT: "old"})) == ["boot_unit"]
    assert actions(THERE._replace(services={UNIT: {"UnitFileState": "disabled"}})) == [
        "boot_enable"
    ]
    failed = {"UnitFileState": "enabled", "ActiveState": "failed"}
    assert actions(THERE._replace(services={UNIT: failed})) == ["boot_forget"]


def test_not_wanted_any_more() -> None:
    assert actions(THERE, None) == ["boot_remove"]
    assert actions(NONE._replace(program=False), None) == []


def test_without_the_program_a_run_is_refused_and_a_check_is_not() -> None:
    bare = NONE._replace(program=False)
    with pytest.raises(NodeError, match=r"gpu\.node\.device_plugin.*boot to false"):
        BOOT.plan(bare, WANTED, TEXTS, check_mode=False)
    assert actions(bare, check_mode=True) == ["boot_config", "boot_unit", "boot_enable"]


def test_file_is_read_back() -> None:
    assert Declared.load(Declared([{"devices": "all"}], "x").dump(), "/f") == (
        [{"devices": "all"}],
        "x",
        False,
    )
    for text in ("", "{", "[]", '{"config": {}}'):
        with pytest.raises(NodeError, match="/f is damaged"):
            Declared.load(text, "/f")


def test_unit_orders_itself_before_what_uses_gpus_and_starts_nothing() -> None:
    """Ordering alone cannot deadlock; a requirement or a start inside could."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNIT_TEXT)
    before = [line for line in UNIT_TEXT.splitlines() if line.startswith("Before=")]
    for name in ("kubelet", "containerd", "docker", "nvidia-dcgm", "gpu-device-plugin", "slurmd"):
        assert f"{name}.service" in " ".join(before)
    assert not {"Requires", "Wants", "BindsTo", "PartOf"} & set(unit["Unit"])
    assert "systemctl" not in UNIT_TEXT
    assert unit["Service"]["Type"] == "notify"
