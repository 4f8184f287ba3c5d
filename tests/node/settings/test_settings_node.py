# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Settings of GPUs as a part of a bring-up: set once, found by one look where they drift, and given back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.support.waiting import eventually

pytestmark = [pytest.mark.node, pytest.mark.long]
RULES = {"settings_rules": [{"persistence": True, "power_limit": "80%", "gpu_clocks": 1200}]}
UNITS = "/etc/systemd/system/gpu-settings.*"
SET, FRESH = ["560.00, 1200, Default"] * 2, ["700.00, 1980, Default"] * 2
DRIFTED = r'gpu_plugin_setting_drifted\{index="(\d+)",setting="(\w+)",uuid="[^"]+"\} 1\.0'
METRICS = (
    "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9402/metrics').read().decode())"
)
ASKED = "--query-gpu=power.limit,clocks.current.graphics,compute_mode"
CUT = {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.5gb": 2}}
LAYOUT = {"version": "v1", "mig-configs": {"half": [{"devices": [0], "mig-enabled": False}, CUT]}}
ALL_CUT = {"version": "v1", "mig-configs": {"all": [{**CUT, "devices": "all"}]}}
ALONE = {"compute_mode": "exclusive_process"}
BESIDE_MIG: dict[str, Any] = {
    "mig_config": LAYOUT,
    "settings_rules": [
        *RULES["settings_rules"],
        {"match": {"index": 0}, "ecc": False, **ALONE},  # the other is in MIG mode
    ],
}


def has(node: Node) -> list[str]:
    """Return what nvidia-smi says of each GPU."""
    return node.run("nvidia-smi", ASKED, "--format=csv,noheader,nounits").strip().splitlines()


def drifted(node: Node) -> list[str]:
    """Return what the device plugin's metrics say of settings that are not as declared."""
    text = node.run("python3", "-c", METRICS)
    return [" ".join(one.groups()) for one in re.finditer(DRIFTED, text)]


def test_settings_hold_after_a_bring_up_and_come_back_after_a_reboot(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("settings", "h100-80", 2)
    assert "No such file" in node.run("sh", "-c", f"ls {UNITS} 2>&1", check=False)
    up = node.play(**RULES)
    assert up.ok, up.message()
    assert has(node) == SET
    again = node.play(**RULES)
    assert again.ok, again.message()
    assert (again.changed(), len(again.module_calls())) == ([], 1)
    node.run("nvidia-smi", "-pl", "500", "-i", "1")
    look = node.play(cmdline="--check", **RULES)
    assert "power_limit from 500 W to 560 W" in str(list(look.results()))
    eventually(lambda: drifted(node), ["1 power_limit"])
    node.run("systemctl", "start", "gpu-settings.service")
    assert has(node) == ["560.00, 1200, Default", "500.00, 1200, Default"]
    assert "power_limit is 500 W, and declared is 560 W" in node.run("gpu-plugin", "status")
    node.reboot()
    eventually(lambda: has(node), SET)
    assert "it was not set since the boot" in node.run("journalctl", "--unit=gpu-settings.service")
    again = node.play(**RULES)
    assert again.ok, again.message()
    assert again.changed() == []
    eventually(lambda: drifted(node), [])
    node.run("nvidia-smi", "-pl", "500")
    node.run("systemctl", "restart", "nvidia-persistenced.service")
    eventually(lambda: has(node), SET)
    assert node.play("gpu.node.teardown", gpu_nodes_teardown_driver=False).ok
    assert has(node) == FRESH
    left = node.run("sh", "-c", f"ls {UNITS} /etc/gpu-node/settings.json 2>/dev/null", check=False)
    assert left == ""


def test_settings_hold_beside_a_mig_layout_and_come_back_after_its_change(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("settings-mig", "a100-40", 2)
    up = node.play(**BESIDE_MIG)
    assert up.ok, up.message()
    settled = ["320.00, 1200, Exclusive_Process", "320.00, 1200, Default"]
    assert has(node) == settled
    again = node.play(**BESIDE_MIG)  # ECC waits for a reboot, which no run makes
    assert again.ok, again.message()
    assert (again.changed(), len(again.module_calls())) == ([], 1)
    assert again.plan()["settings"]["reboot_required"]

    for words in ("mig -i 1 -dci", "mig -i 1 -dgi", "-i 1 -mig 0"):
        node.run("nvidia-smi", *words.split())
    eventually(lambda: has(node)[1], "400.00, 1410, Default")
    node.run("systemctl", "restart", "gpu-mig.service")
    eventually(lambda: has(node), settled)
    eventually(lambda: drifted(node), [])

    node.reboot()
    eventually(lambda: has(node), settled)
    asked = ("--query-gpu=ecc.mode.current", "--format=csv,noheader")
    assert node.run("nvidia-smi", *asked).split() == ["Disabled", "Enabled"]
    again = node.play(**BESIDE_MIG)
    assert again.ok, again.message()
    assert (again.changed(), len(again.module_calls())) == ([], 1)
    assert not again.plan()["settings"]["reboot_required"]

    for wrong, said in (
        ({"settings_rules": [{"match": {"index": 1}, **ALONE}]}, "the GPU is in MIG mode"),
        ({"mig_config": ALL_CUT}, "the GPU is to be in MIG mode"),
    ):
        refused = node.play(**{**BESIDE_MIG, **wrong})
        assert not refused.ok
        assert "compute_mode can't be exclusive process" in refused.message()
        assert said in refused.message()
        assert "leave compute_mode out of the rules for GPUs in MIG mode" in refused.message()
        assert (refused.changed(), len(refused.module_calls())) == ([], 1)
    assert has(node) == settled
