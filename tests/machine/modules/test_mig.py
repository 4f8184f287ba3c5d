# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.mig on the simulated driver: what it says is what the driver has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nvsim.testing import Sim, start

from tests.machine.modules.mig_scene import (
    DESTROY_GI,
    IN_USE,
    SET_MODE,
    THREE,
    Run,
    config,
    layout,
    names,
)


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
    assert again["changed"] is False
    assert len(again["gpus"][1]["kept"]) == 3


def test_mode_that_another_client_prevents_leaves_the_gpu_as_it_was(
    a100: Sim, run_module: Run
) -> None:
    a100.ctl("fault", gpu="1", function=SET_MODE, code=IN_USE, nth=1, times=1)
    failed = run_module(a100, "mig", config=config(THREE))
    assert failed["failed"]
    assert "restored" in failed["msg"]
    assert layout(a100) == []
    assert run_module(a100, "mig", config=config(THREE))["changed"]


def test_lost_gpu_stops_only_a_layout_that_is_about_it(a100: Sim, run_module: Run) -> None:
    a100.ctl("lose", gpu="0")
    refused = run_module(a100, "mig", config=config(THREE, 0, 1))
    assert refused["failed"]
    assert "GPU 0: the GPU has fallen off the bus" in refused["msg"]
    assert layout(a100) == []
    done = run_module(a100, "mig", config=config(THREE))
    assert names(a100) == ["1g.5gb", "1g.5gb", "3g.20gb"]
    assert "left alone" in str(done["warnings"])


def test_lost_gpu_in_quarantine_keeps_no_layout_from_the_others(a100: Sim, run_module: Run) -> None:
    run_module(a100, "quarantine", gpus=["0"], reason="XID 79")
    a100.ctl("lose", gpu="0")
    done = run_module(a100, "mig", config=config(THREE, 0, 1))
    assert not done.get("failed"), done
    assert names(a100) == ["1g.5gb", "1g.5gb", "3g.20gb"]
    assert "left alone" in str(done["warnings"])
    assert not run_module(a100, "mig", config=config(THREE, 0, 1))["changed"]
    a100.ctl("lose", gpu="1")  # which nobody has set aside
    assert "GPU 1: the GPU has fallen off" in run_module(a100, "mig", config=config(THREE))["msg"]


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


def test_what_lacks_is_named_and_a_preview_can_tell(run_module: Run, tmp_path: Path) -> None:
    """Without the driver, and with a driver that this Python has no library to ask."""
    with start("a100-40", 2, driver=None) as sim:
        checked = run_module(sim, "mig", check=True, config=config(THREE))
        assert checked["nvml_available"] is False
        assert "gpu.node.nvidia_driver" in checked["nvml_error"]
    (tmp_path / "pynvml.py").write_text("raise ImportError\n")
    with start("a100-40", 2) as sim:
        assert run_module(sim, "mig", check=True, config=config(THREE))["nvml_available"] is True
        sim.env["PYTHONPATH"] = os.pathsep.join((str(tmp_path), sim.env["PYTHONPATH"]))
        checked = run_module(sim, "mig", check=True, config=config(THREE))
        failed = run_module(sim, "mig", config=config(THREE))
        for text in (checked["nvml_error"], failed["msg"], str(checked["warnings"])):
            assert "this Python has no pynvml (nvidia-ml-py)" in text
            assert sys.executable in text
            assert "gpu.node.device_plugin" in text
            assert "libnvidia-ml.so.1" not in text
            assert "driver" not in text


def test_compute_instances_share_a_gpu_instance(a100: Sim, run_module: Run) -> None:
    first = run_module(a100, "mig", config=config({"1c.3g.20gb": 3, "3g.20gb": 1}))
    assert names(a100) == ["3g.20gb", "3g.20gb"]
    split = next(one for one in first["gpus"][1]["instances"] if len(one["uuids"]) == 3)
    holder = a100.hold(1, split["id"], split["compute_instances"][1]["id"])
    wanted = config({"1c.3g.20gb": 2, "3g.20gb": 1})
    done = run_module(a100, "mig", config=wanted)
    assert [step["action"] for step in done["steps"]] == ["destroy_ci"]
    a100.let_go(holder)
    again = run_module(a100, "mig", config=wanted)
    assert again["changed"] is False
    assert {uuid for one in again["gpus"][1]["instances"] for uuid in one["uuids"]} < {
        uuid for one in first["gpus"][1]["instances"] for uuid in one["uuids"]
    }


def test_report_tells_before_after_and_what_became_of_each(a100: Sim, run_module: Run) -> None:
    first = run_module(a100, "mig", config=config(THREE))
    uuids = {uuid for one in first["gpus"][1]["created"] for uuid in one["uuids"]}
    assert len(uuids) == 3
    wanted = config({"1g.5gb": 1, "3g.20gb": 1, "2g.10gb": 1})
    checked = run_module(a100, "mig", config=wanted, check=True)["gpus"][1]
    assert [one["profile"] for one in checked["created"]] == ["2g.10gb"]
    report = run_module(a100, "mig", config=wanted)["gpus"][1]
    assert report["before"] == first["gpus"][1]["instances"]
    assert [one["profile"] for one in report["created"]] == ["2g.10gb"]
    assert [one["profile"] for one in report["destroyed"]] == ["1g.5gb"]
    assert len(report["kept"]) == 2
    kept = {uuid for one in report["kept"] for uuid in one["uuids"]}
    now = {uuid for one in report["instances"] for uuid in one["uuids"]}
    assert kept < uuids
    assert kept < now
    assert "2g.10gb" in report["picture"]


def test_the_genuine_nvidia_smi_agrees(a100: Sim, run_module: Run, nvidia_smi: Path) -> None:
    report = run_module(a100, "mig", config=config(THREE))["gpus"][1]
    done = subprocess.run(
        [nvidia_smi, "mig", "-lgi"], env=a100.env, capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines() if "MIG" in line]
    listed = {(row[3], int(row[5]), row[6]) for row in rows}
    assert listed == {
        (one["profile"], one["id"], f"{one['start']}:{one['size']}") for one in report["instances"]
    }
    done = subprocess.run(
        [nvidia_smi, "-L"], env=a100.env, capture_output=True, text=True, check=True
    )
    for one in report["instances"]:
        assert all(uuid in done.stdout for uuid in one["uuids"])


def test_busy_gpus_are_skipped_or_waited_for(a100: Sim, run_module: Run) -> None:
    holder = a100.hold(0)
    both = config(THREE, 0, 1)
    failed = run_module(a100, "mig", config=both)
    assert failed["failed"]
    assert layout(a100) == []
    skipped = run_module(a100, "mig", config=both, on_busy="skip")
    assert len(names(a100)) == 3
    assert str(holder.pid) in skipped["blocked_by"][0]
    assert layout(a100, 0) == []
    late = run_module(a100, "mig", config=both, on_busy="wait", wait_timeout=1)
    assert late["failed"]
    assert "after 1 s GPU 0" in late["msg"]
    checked = run_module(a100, "mig", config=both, on_busy="wait", check=True)
    assert len(checked["steps"]) == 4
    assert "would wait" in str(checked["warnings"])
    a100.let_go(holder)
    assert run_module(a100, "mig", config=both, on_busy="wait")["changed"]
    assert names(a100, 0) == names(a100, 1)


def test_instance_that_turns_busy_half_way_is_waited_for(a100: Sim, run_module: Run) -> None:
    run_module(a100, "mig", config=config(THREE))
    a100.ctl("fault", gpu="1", function=DESTROY_GI, code=IN_USE, nth=1, times=2)
    waited = run_module(
        a100, "mig", config=config({"7g.40gb": 1}), on_busy="wait", wait_timeout=600
    )
    assert waited["changed"]
    assert names(a100) == ["7g.40gb"]


def test_order_in_which_a_greedy_driver_fails(a100: Sim, run_module: Run) -> None:
    wanted = {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
    assert run_module(a100, "mig", config=config(wanted))["changed"]
    assert names(a100) == ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]


@pytest.mark.parametrize("wanted", [{"config": config(THREE, 0, 1)}, {"selected": "all-3g.20gb"}])
def test_driver_that_tells_profiles_only_in_mig_mode(
    wanted: dict[str, object], a100: Sim, run_module: Run
) -> None:
    a100.ctl("profiles-need-mig", on="on")
    done = run_module(a100, "mig", **wanted)
    assert not done.get("failed"), done["msg"]
    assert names(a100, 0) == names(a100, 1) != []
    assert run_module(a100, "mig", **wanted)["changed"] is False
