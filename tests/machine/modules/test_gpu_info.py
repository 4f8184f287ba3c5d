# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.gpu_info on the simulated driver, and a report on what it and gpu.node.plan answer."""

from __future__ import annotations

import json

from ansible_collections.gpu.node.plugins.filter.fleet_report import fleet_report
from nvsim.testing import Sim

from tests.machine.modules.mig_scene import THREE, Run, config


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


def test_a_report_understands_what_a_node_answers(a100: Sim, run_module: Run) -> None:
    run_module(a100, "mig", config=config(THREE))
    holder = a100.hold(0)
    a100.ctl("lose", gpu="0")
    told = {"looked": run_module(a100, "plan", status=True, components=["mig"])}
    told["info"] = run_module(a100, "gpu_info")
    text = fleet_report(["n"], {"n": told}, "looked", "info", form="json")
    (found,) = json.loads(text)["nodes"]
    assert (found["state"], found["problem"]) == ("looked", "")
    assert [len(one["instances"]) for one in found["gpus"]] == [3]
    assert found["unhealthy"], "a GPU is lost"
    a100.let_go(holder)
