# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.mig and gpu.node.gpu_info on the simulated driver: what they say is what the driver has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nvsim.testing import Sim, start

Run = Callable[..., dict[str, Any]]
NAMES = {19: "1g.5gb", 14: "2g.10gb", 9: "3g.20gb", 5: "4g.20gb", 0: "7g.40gb"}
THREE = {"1g.5gb": 2, "3g.20gb": 1}
CREATE_GI = "nvmlDeviceCreateGpuInstanceWithPlacement"
CREATE_CI = "nvmlGpuInstanceCreateComputeInstance"
DESTROY_GI = "nvmlGpuInstanceDestroy"
SET_MODE = "nvmlDeviceSetMigMode"
NO_PERMISSION, INSUFFICIENT_RESOURCES, GPU_IS_LOST, IN_USE, UNKNOWN = 4, 23, 15, 19, 999


@pytest.fixture
def a100() -> Iterator[Sim]:
    with start("a100-40", 2) as sim:
        yield sim


def config(layout: dict[str, int], *devices: int) -> dict[str, Any]:
    entry = {
        "devices": list(devices or (1,)),
        "mig-enabled": bool(layout),
        "mig-devices": layout,
    }
    return {"version": "v1", "mig-configs": {"wanted": [entry]}}


def layout(sim: Sim, gpu: int = 1) -> list[tuple[str, int, int]]:
    """Return name, start and id of each instance that the driver itself has."""
    found = sim.ctl("status")["gpus"][gpu]["gis"]
    assert all(one["cis"] for one in found)
    return sorted((NAMES[one["profile"]], one["start"], one["id"]) for one in found)


def names(sim: Sim, gpu: int = 1) -> list[str]:
    return [name for name, _start, _id in layout(sim, gpu)]


def test_check_mode_tells_what_apply_does_and_a_second_run_changes_nothing(
    a100: Sim, run_module: Run
) -> None:
    checked = run_module(a100, "mig", check=True, config=config(THREE))
    assert layout(a100) == []
    first = run_module(a100, "mig", config=config(THREE))
    assert (first["steps"], first["diff"]) == (checked["steps"], checked["diff"])
    assert names(a100) == ["1g.5gb", "1g.5gb", "3g.20gb"]
    assert first["gpus"][0]["mig_enabled"] is False
    reported = [(one["profile"], one["start"], one["id"]) for one in first["gpus"][1]["instances"]]
    assert sorted(reported) == layout(a100)
    again = run_module(a100, "mig", config=config(THREE))
    assert (again["changed"], again["kept"]) == (False, 3)


def test_adding_an_instance_disturbs_no_busy_one(a100: Sim, run_module: Run) -> None:
    run_module(a100, "mig", config=config(THREE))
    before = layout(a100)
    holders = [a100.hold(1, number, 0) for _name, _start, number in before]
    changed = run_module(a100, "mig", config=config({"1g.5gb": 3, "3g.20gb": 1}))
    assert len(changed["steps"]) == 1
    assert set(before) < set(layout(a100))
    refused = run_module(a100, "mig", config=config({"7g.40gb": 1}))
    assert refused["failed"]
    assert [one.pid for one in holders if str(one.pid) not in refused["msg"]] == []
    assert set(before) < set(layout(a100))
    for holder in holders:
        a100.let_go(holder)


@pytest.mark.parametrize("code", [NO_PERMISSION, INSUFFICIENT_RESOURCES, IN_USE, UNKNOWN])
@pytest.mark.parametrize("function", [CREATE_GI, CREATE_CI, DESTROY_GI])
def test_failure_half_way_restores_the_layout_and_the_next_run_finishes(
    a100: Sim, run_module: Run, function: str, code: int
) -> None:
    run_module(a100, "mig", config=config(THREE))
    before = [(name, at) for name, at, _id in layout(a100)]
    wanted = config({"2g.10gb": 2, "3g.20gb": 1})
    a100.ctl("fault", gpu="1", function=function, code=code, nth=2, times=1)
    failed = run_module(a100, "mig", config=wanted)
    assert failed["failed"]
    assert "its previous layout was restored" in failed["msg"]
    assert [(name, at) for name, at, _id in layout(a100)] == before
    done = run_module(a100, "mig", config=wanted)
    assert done["changed"]
    assert names(a100) == ["2g.10gb", "2g.10gb", "3g.20gb"]


def test_mode_that_another_client_prevents_leaves_the_gpu_as_it_was(
    a100: Sim, run_module: Run
) -> None:
    a100.ctl("fault", gpu="1", function=SET_MODE, code=IN_USE, nth=1, times=1)
    failed = run_module(a100, "mig", config=config(THREE))
    assert failed["failed"]
    assert "restored" in failed["msg"]
    assert layout(a100) == []
    assert run_module(a100, "mig", config=config(THREE))["changed"]


def test_lost_gpu_is_named_before_anything_is_changed(a100: Sim, run_module: Run) -> None:
    a100.ctl("lose", gpu="0")
    failed = run_module(a100, "mig", config=config(THREE))
    assert failed["failed"]
    assert "GPU 0: the GPU has fallen off the bus" in failed["msg"]
    assert layout(a100) == []


def test_after_a_reboot_the_same_layout_is_made_again(a100: Sim, run_module: Run) -> None:
    run_module(a100, "mig", config=config(THREE))
    places = [(name, at) for name, at, _id in layout(a100)]
    a100.ctl("reboot")
    assert layout(a100) == []
    assert run_module(a100, "mig", config=config(THREE))["changed"]
    assert [(name, at) for name, at, _id in layout(a100)] == places


def test_generated_layouts(a100: Sim, run_module: Run) -> None:
    run_module(a100, "mig", selected="all-3g.20gb")
    assert names(a100, 0) == names(a100, 1) == ["3g.20gb", "3g.20gb"]
    off = run_module(a100, "mig", selected="all-disabled")
    assert off["gpus"][0]["mig_enabled"] is off["gpus"][1]["mig_enabled"] is False
    unknown = run_module(a100, "mig", selected="all-9g.99gb")
    assert unknown["failed"]
    assert "9g.99gb" in unknown["msg"]


def test_without_a_driver_check_mode_plans_and_a_run_says_what_is_missing(run_module: Run) -> None:
    with start("a100-40", 2, driver=None) as sim:
        checked = run_module(sim, "mig", check=True, config=config(THREE))
        assert checked["changed"]
        assert "wanted" in checked["steps"][0]["summary"]
        failed = run_module(sim, "mig", config=config(THREE))
        assert failed["failed"]
        assert "gpu.node.nvidia_driver" in failed["msg"]


def test_gpu_info_shows_what_the_driver_has(a100: Sim, run_module: Run) -> None:
    run_module(a100, "mig", config=config(THREE))
    holder = a100.hold(0)
    info = run_module(a100, "gpu_info")["gpu_info"]
    board = a100.ctl("status")["gpus"]
    assert [one["uuid"] for one in info["gpus"]] == [one["uuid"] for one in board]
    assert info["nvml_available"] is True
    assert [one["pid"] for one in info["gpus"][0]["processes"]] == [holder.pid]
    assert len(info["gpus"][1]["gpu_instances"]) == 3
    a100.let_go(holder)
    a100.ctl("lose", gpu="1")
    info = run_module(a100, "gpu_info")["gpu_info"]
    assert len(info["gpus"]) == 1
    assert len(info["lost_gpus"]) == 1
