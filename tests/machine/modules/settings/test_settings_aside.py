# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The module settings beside quarantines: what an operator, and what a repair has set aside."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import (
    Quarantine,
    Quarantined,
)
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import (
    dump as dump_quarantine,
)
from nvsim.testing import Sim, start

Run = Callable[..., dict[str, Any]]
NO_PERMISSION = 4


@pytest.fixture
def h100() -> Iterator[Sim]:
    with start("h100-80", 2) as sim:
        sim.ctl("energy", gpu="0", seconds=1000)
        sim.ctl("energy", gpu="1", seconds=1000)
        yield sim


@pytest.fixture
def smi(nvidia_smi: Path, h100: Sim) -> Callable[..., str]:
    def run(*words: str) -> str:
        command = [nvidia_smi, *words]
        return subprocess.run(
            command, env=h100.env, capture_output=True, text=True, check=True
        ).stdout

    return run


def has(smi: Callable[..., str], *names: str) -> list[str]:
    """Return what nvidia-smi says of each GPU."""
    text = smi(f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits")
    return text.strip().splitlines()


def set_aside(folder: Path, uuid: str, by: str) -> None:
    """Set a GPU aside as gpu.node.quarantine does."""
    entry = Quarantine({uuid: Quarantined(by, "XID 48")})
    (folder / "quarantine.json").write_text(dump_quarantine(entry))


def test_a_gpu_that_a_repair_has_set_aside_is_set_before_it_is_proved(
    run_module: Run, h100: Sim, smi: Callable[..., str], tmp_path: Path
) -> None:
    uuid = h100.ctl("status")["gpus"][0]["uuid"]
    set_aside(tmp_path, uuid, "repair")
    answer = run_module(h100, "settings", rules=[{"power_limit": 550}])
    assert has(smi, "power.limit") == ["550.00"] * 2
    assert [gpu["left_alone"] for gpu in answer["gpus"]] == ["", ""]
    assert not run_module(h100, "settings", rules=[{"power_limit": 550}])["changed"]


def test_a_gpu_that_an_operator_has_set_aside_is_set_once_it_is_about_to_be_released(
    run_module: Run, h100: Sim, smi: Callable[..., str], tmp_path: Path
) -> None:
    uuid = h100.ctl("status")["gpus"][0]["uuid"]
    set_aside(tmp_path, uuid, "operator")
    answer = run_module(h100, "settings", rules=[{"power_limit": 550}])
    assert has(smi, "power.limit") == ["700.00", "550.00"]
    assert "by an operator: XID 48" in answer["gpus"][0]["left_alone"]
    run_module(h100, "settings", rules=[{"power_limit": 550}], releasing=[uuid])
    assert has(smi, "power.limit") == ["550.00"] * 2


def test_a_gpu_under_repair_that_can_not_be_set_is_named_and_stops_no_other_one(
    run_module: Run, h100: Sim, smi: Callable[..., str], tmp_path: Path
) -> None:
    uuid = h100.ctl("status")["gpus"][0]["uuid"]
    set_aside(tmp_path, uuid, "repair")
    function = "nvmlDeviceSetPowerManagementLimit"
    h100.ctl("fault", gpu="0", function=function, code=NO_PERMISSION)
    answer = run_module(h100, "settings", rules=[{"power_limit": 550}])
    assert not answer.get("failed"), answer
    assert has(smi, "power.limit") == ["700.00", "550.00"]
    assert "power_limit can't be set to 550 W" in answer["gpus"][0]["left_alone"]
    assert "settings: left alone: GPU 0 (" in str(answer["warnings"])
    h100.ctl("clear-faults")
    assert len(run_module(h100, "settings", rules=[{"power_limit": 550}])["steps"]) == 1
