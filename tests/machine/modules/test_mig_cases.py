# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What goes wrong with other tools, case by case; docs/mig.md lists them."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nvsim.catalog import product
from nvsim.testing import PROJECT, Sim, client, start

from tests.machine.modules.mig_scene import (
    CREATE_CI,
    CREATE_GI,
    DESTROY_GI,
    IN_USE,
    INSUFFICIENT_RESOURCES,
    NO_PERMISSION,
    THREE,
    UNKNOWN,
    Run,
    begins_a_change,
    config,
    hold_changes,
    layout,
    let_all_through,
    names,
    places,
)

Start = Callable[..., "subprocess.Popen[str]"]


def uuids(answer: dict[str, Any], gpu: int) -> set[str]:
    return {uuid for one in answer["gpus"][gpu]["instances"] for uuid in one["uuids"]}


@pytest.mark.parametrize("wanted", [{"1g.11gb": 7}, {"2g.10gb": 1, "3g.47gb": 1}])
def test_profile_that_the_gpu_does_not_offer_is_no_success(
    wanted: dict[str, int], a100: Sim, run_module: Run
) -> None:
    run_module(a100, "mig", config=config(THREE))
    before = layout(a100)
    failed = run_module(a100, "mig", config=config(wanted))
    assert failed["failed"]
    assert "does not have the profile" in failed["msg"]
    assert "1g.5gb" in failed["msg"]
    assert layout(a100) == before


def test_mode_change_of_one_gpu_touches_no_other(a100: Sim, run_module: Run) -> None:
    first = run_module(a100, "mig", config=config(THREE, 0))
    holder = a100.hold(0, layout(a100, 0)[0][2], 0)
    second = run_module(a100, "mig", config=config(THREE, 0, 1))
    assert uuids(first, 0) == uuids(second, 0)
    assert names(a100, 1) == names(a100, 0)
    third = run_module(a100, "mig", config=config({}, 1))
    assert third["gpus"][1]["mig_enabled"] is False
    assert uuids(third, 0) == uuids(first, 0)
    a100.let_go(holder)


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


CODES = (NO_PERMISSION, INSUFFICIENT_RESOURCES, IN_USE, UNKNOWN)
SHORT = {(CREATE_GI, INSUFFICIENT_RESOURCES), (CREATE_CI, UNKNOWN), (DESTROY_GI, IN_USE)}


@pytest.mark.parametrize(
    ("function", "code"),
    [
        pytest.param(*one, marks=[] if one in SHORT else [pytest.mark.long])
        for one in itertools.product((CREATE_GI, CREATE_CI, DESTROY_GI), CODES)
    ],
)
def test_failure_half_way_restores_the_layout_and_the_next_run_finishes(
    a100: Sim, run_module: Run, function: str, code: int
) -> None:
    run_module(a100, "mig", config=config(THREE))
    before = places(a100)
    wanted = config({"2g.10gb": 2, "3g.20gb": 1})
    a100.ctl("fault", gpu="1", function=function, code=code, nth=2, times=1)
    failed = run_module(a100, "mig", config=wanted)
    assert failed["failed"]
    assert "its previous layout was restored" in failed["msg"]
    assert places(a100) == before
    done = run_module(a100, "mig", config=wanted)
    assert done["changed"]
    assert names(a100) == ["2g.10gb", "2g.10gb", "3g.20gb"]


def test_gpu_instance_without_compute_instance_is_seen_and_completed(
    a100: Sim, run_module: Run
) -> None:
    client(
        a100,
        """
        n.nvmlInit()
        h = n.nvmlDeviceGetHandleByIndex(1)
        n.nvmlDeviceSetMigMode(h, 1)
        n.nvmlDeviceCreateGpuInstance(h, 0)
        """,
    )
    done = run_module(a100, "mig", config=config({"7g.40gb": 1}))
    assert [step["action"] for step in done["steps"]] == ["create_ci"]
    assert names(a100) == ["7g.40gb"]
    assert len(uuids(done, 1)) == 1


def test_mode_of_which_only_note_was_taken_is_no_success(
    a100: Sim, start_module: Start, run_module: Run
) -> None:
    """A client comes between the plan and the switch; the driver then answers without an error."""
    hold_changes(a100)
    process = start_module(a100, "mig", config=config(THREE))
    assert begins_a_change(a100, process)
    holder = a100.hold(1)
    let_all_through(a100)
    failed = json.loads(process.communicate()[0])
    assert failed["failed"]
    assert "in use by another process" in failed["msg"]
    gpu = a100.ctl("status")["gpus"][1]
    assert (gpu["mig_current"], gpu["mig_pending"]) == (0, 0)
    a100.let_go(holder)


FAKE_HOST = """
import json, sys
from ansible_collections.gpu.node.plugins.module_utils._base import boot
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._mig.capability import (MigCapability)
from ansible_collections.gpu.node.plugins.module_utils._generated.mig import SPEC
from tests.fakes.library.fakes import FakeHost
host = FakeHost({boot.PROGRAM: ""}, {("systemctl",): ""})
params = {key: spec.get("default") for key, spec in SPEC["argument_spec"].items()}
failed = ""
try:
    one = MigCapability(host, {**params, **json.loads(sys.argv[1])}, check_mode=False)
    plan = one.plan(one.observe())
    for step in plan.steps:
        one.apply(step)
    assert one.plan(one.observe()).steps[-1].action == "boot_enable"  # the fake never enables it
except NodeError as error:
    failed = str(error)
print(json.dumps({"failed": failed, "files": host.files, "ran": host.ran}))
"""


def on_a_fake_host(sim: Sim, **params: Any) -> dict[str, Any]:
    """Converge with boot files on, on a machine that is not this one."""
    done = subprocess.run(
        [sys.executable, "-c", FAKE_HOST, json.dumps(params)],
        env=sim.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_selection_that_cannot_be_made_does_not_survive_the_reboot(a100: Sim) -> None:
    made = on_a_fake_host(a100, config=config(THREE))
    assert not made["failed"]
    assert "1g.5gb" in made["files"]["/etc/gpu-node/mig.json"]
    for bad in (config({"1g.11gb": 1}), config({"7g.40gb": 2}), config(THREE, 7)):
        refused = on_a_fake_host(a100, config=bad)
        assert refused["failed"]
        assert "/etc/gpu-node/mig.json" not in refused["files"]
    a100.ctl("fault", gpu="1", function=CREATE_GI, code=UNKNOWN, nth=1, times=1)
    failed = on_a_fake_host(a100, config=config({"2g.10gb": 3}))
    assert failed["failed"]
    assert "/etc/gpu-node/mig.json" not in failed["files"]


def test_gpu_that_cannot_be_partitioned_is_refused_before_anything(run_module: Run) -> None:
    with start("l40s", 2) as sim:
        wanted = config(THREE)
        wanted["mig-configs"]["wanted"][0]["devices"] = "all"
        failed = run_module(sim, "mig", config=wanted)
        assert failed["failed"]
        assert "GPU 0 (NVIDIA L40S" in failed["msg"]
        assert "can't be partitioned" in failed["msg"]
        assert not failed["changed"]


@pytest.fixture
def resetting(a100: Sim, tmp_path: Path) -> Sim:
    """Return a machine whose nvidia-smi can reset a GPU, which the genuine one does past NVML."""
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    words = f"PYTHONPATH={PROJECT} exec {sys.executable} -m nvsim.ctl --socket {a100.socket}"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/smi.log\n{words} reset "$3"\n')
    program.chmod(0o755)
    a100.env["PATH"] = f"{program.parent}:{a100.env['PATH']}"
    return a100


def test_reset_is_never_forced_and_names_the_holders(
    resetting: Sim, run_module: Run, tmp_path: Path
) -> None:
    sim = resetting
    sim.ctl("passthrough", on="on")
    waits = run_module(sim, "mig", config=config(THREE))
    assert waits["reboot_required"] is True
    assert "GPU 1" in waits["reboot_reasons"][0]
    assert [step["action"] for step in waits["steps"]] == ["set_mig_mode"]
    holder = sim.hold(1)
    busy = run_module(sim, "mig", config=config(THREE), reset="when_idle")
    assert busy["failed"]
    assert str(holder.pid) in busy["msg"]
    assert not (tmp_path / "smi.log").exists()
    sim.let_go(holder)
    run_module(sim, "mig", config=config(THREE), reset="when_idle")
    assert len(names(sim)) == 3
    gpu = sim.ctl("status")["gpus"][1]["uuid"]
    assert (tmp_path / "smi.log").read_text() == f"--gpu-reset -i {gpu}\n"


def test_reset_that_nvidia_smi_makes_finds_nobody_on_the_gpu(
    a100: Sim, run_module: Run, nvidia_smi: Path
) -> None:
    """Neither this module itself, which has NVML open, nor persistence mode, which comes back."""
    a100.env["PATH"] = f"{nvidia_smi.parent}:{a100.env['PATH']}"
    a100.ctl("passthrough", on="on")
    run_module(a100, "mig", config=config(THREE))
    a100.ctl("passthrough", on="off")
    client(a100, "n.nvmlInit(); n.nvmlDeviceSetPersistenceMode(n.nvmlDeviceGetHandleByIndex(1), 1)")
    done = run_module(a100, "mig", config=config(THREE), reset="when_idle")
    assert [one["action"] for one in done["steps"]][:2] == ["stop_services", "reset_gpu"], done
    assert len(names(a100)) == 3
    assert a100.ctl("status")["gpus"][1]["persistence"] == 1


def test_reset_that_is_refused_says_what_helps(
    a100: Sim, run_module: Run, nvidia_smi: Path
) -> None:
    a100.env["PATH"] = f"{nvidia_smi.parent}:{a100.env['PATH']}"
    a100.ctl("passthrough", on="on")
    run_module(a100, "mig", config=config(THREE))
    failed = run_module(a100, "mig", config=config(THREE), reset="when_idle")
    assert "GPU reset unavailable: Not Supported" in failed["msg"]
    assert "reboot the node" in failed["hint"]


def test_passthrough_asks_for_a_reboot_and_goes_on_after_it(a100: Sim, run_module: Run) -> None:
    a100.ctl("passthrough", on="on")
    for _again in range(2):
        waits = run_module(a100, "mig", config=config(THREE))
        assert not waits.get("failed")
        assert waits["reboot_required"] is True
        assert layout(a100) == []
    a100.ctl("reboot")
    done = run_module(a100, "mig", config=config(THREE))
    assert done["reboot_required"] is False
    assert len(names(a100)) == 3


def test_no_service_but_our_own_is_touched(a100: Sim) -> None:
    ran = on_a_fake_host(a100, config=config(THREE))["ran"]
    assert ran
    units = {word for words in ran for word in words if word.endswith(".service")}
    assert units == {"gpu-mig.service"}
    assert not [words for words in ran if {"start", "stop", "restart"} & set(words)]


OTHERS = ("a100-80", "a30", "h100-80", "h200-141", "b200")


@pytest.mark.parametrize(
    "key", ["a100-40", *(pytest.param(one, marks=pytest.mark.long) for one in OTHERS)]
)
def test_profiles_are_the_gpus_own(key: str, run_module: Run) -> None:
    with start(key, 1) as sim:
        for profile in product(key).profiles:
            done = run_module(sim, "mig", selected=f"all-{profile.name.replace('+', '.')}")
            assert not done.get("failed"), done["msg"]
            made = done["gpus"][0]["instances"]
            assert {one["profile"] for one in made} == {profile.name}
            assert {gi["profile"] for gi in sim.ctl("status")["gpus"][0]["gis"]} == {profile.id}


def test_layout_for_some_gpus_leaves_the_others_alone(a100: Sim, run_module: Run) -> None:
    client(
        a100,
        """
        n.nvmlInit()
        h = n.nvmlDeviceGetHandleByIndex(0)
        n.nvmlDeviceSetMigMode(h, 1)
        gi = n.nvmlDeviceCreateGpuInstance(h, 14)
        n.nvmlGpuInstanceCreateComputeInstance(gi, 1)
        """,
    )
    foreign = places(a100, 0)
    assert run_module(a100, "mig", config=config(THREE))["changed"]
    assert run_module(a100, "mig", config=config(THREE))["changed"] is False
    assert places(a100, 0) == foreign
