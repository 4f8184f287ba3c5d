# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The module settings on the simulated driver, beside the genuine nvidia-smi, which sets and reads the same."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from nvsim.testing import Sim, start

from tests.fakes.played.dcgmi import configuration, discovery

Run = Callable[..., dict[str, Any]]
NO_PERMISSION = 4
REBOOT = Path(__file__).parents[4] / "playbooks/tasks/reboot/plan.yml"
CAPPED = [{"persistence": True, "power_limit": "50%", "gpu_clocks": [405, 1200], "ecc": False}]


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


def test_what_is_set_is_what_nvidia_smi_shows_and_a_second_run_changes_nothing(
    run_module: Run, h100: Sim, smi: Callable[..., str]
) -> None:
    planned = run_module(h100, "settings", check=True, rules=CAPPED)
    asked = ("power.limit", "clocks.current.graphics", "persistence_mode", "ecc.mode.pending")
    assert has(smi, *asked) == ["700.00, 1980, Disabled, Enabled"] * 2
    done = run_module(h100, "settings", rules=CAPPED)
    assert [one["summary"] for one in done["steps"]] == [one["summary"] for one in planned["steps"]]
    assert has(smi, *asked) == ["350.00, 1200, Enabled, Disabled"] * 2
    assert done["reboot_required"]
    assert [one["pending"].partition(": ")[2] for one in done["gpus"]] == [
        "ECC is off after a reset of the GPU or a reboot"
    ] * 2
    again = run_module(h100, "settings", rules=CAPPED)
    assert not again["changed"]
    assert again["gpus"][0]["settings"] == {
        "persistence": True,
        "power_limit": 350000,
        "gpu_clocks": [405, 1200],
        "memory_clocks": None,
        "ecc": False,
        "compute_mode": "default",
        "accounting": False,
    }
    run_module(h100, "settings", state="absent")
    assert has(smi, *asked) == ["700.00, 1980, Disabled, Enabled"] * 2
    assert not run_module(h100, "settings", state="absent")["changed"]


def test_an_ecc_mode_that_waits_is_what_a_reboot_of_the_node_is_needed_for(
    run_module: Run, h100: Sim, nvidia_smi: Path
) -> None:
    """Of the two GPUs one is set, by the question that gpu.node.reboot asks."""
    tasks = yaml.safe_load(REBOOT.read_text())
    asked = [
        *tasks[0]["ansible.builtin.command"]["argv"][:2],
        tasks[0]["vars"]["__reboot_question"],
    ]
    env = {**h100.env, "PATH": f"{nvidia_smi.parent}:{h100.env['PATH']}"}

    def reasons() -> list[str]:
        said = subprocess.run(asked, env=env, capture_output=True, text=True, check=True).stdout
        return [line for line in said.splitlines() if "ECC" in line]

    assert reasons() == []
    rules = [{"match": {"index": 1}, "ecc": False}]
    planned = run_module(h100, "settings", check=True, rules=rules)
    assert planned["reboot_required"]
    assert [one["needs"] for one in planned["steps"]] == [["reset"]]
    run_module(h100, "settings", rules=rules)
    assert reasons() == ["GPU 1 has ECC Enabled, and Disabled after a reset of the GPU or a reboot"]
    h100.ctl("reboot")
    assert reasons() == []
    assert not run_module(h100, "settings", rules=rules)["reboot_required"]
    h100.ctl("unload")
    assert reasons() == []


AGREED = [
    ("persistence", True, ("-pm", "1"), "persistence_mode", "Enabled"),
    ("power_limit", 450, ("-pl", "450"), "power.limit", "450.00"),
    ("ecc", False, ("-e", "0"), "ecc.mode.pending", "Disabled"),
    (*("compute_mode", "exclusive_process"), ("-c", "3"), "compute_mode", "Exclusive_Process"),
    ("compute_mode", "prohibited", ("-c", "PROHIBITED"), "compute_mode", "Prohibited"),
    ("accounting", True, ("-am", "1"), "accounting.mode", "Enabled"),
    ("gpu_clocks", [405, 1200], ("-lgc", "405,1200"), "clocks.current.graphics", "1200"),
    ("memory_clocks", 1593, ("-lmc", "1593,1593"), "clocks.current.memory", "1593"),
]


@pytest.mark.parametrize(("name", "value", "words", "asked", "shown"), AGREED)
def test_nvidia_smi_reads_what_was_set_here(
    run_module: Run,
    h100: Sim,
    smi: Callable[..., str],
    name: str,
    value: Any,
    words: tuple[str, ...],
    asked: str,
    shown: str,
) -> None:
    before = has(smi, asked)
    smi(*words, "-i", "1")
    as_set = has(smi, asked)[1]
    run_module(h100, "settings", rules=[{"match": {"index": 0}, name: value}])
    assert has(smi, asked) == [shown, shown]
    assert as_set == shown
    run_module(h100, "settings", state="absent")
    assert has(smi, asked) == [before[0], shown]


@pytest.mark.parametrize(
    ("name", "value", "words"), [one[:3] for one in AGREED if "clocks" not in one[0]]
)
def test_what_nvidia_smi_sets_is_read_here(
    run_module: Run,
    h100: Sim,
    smi: Callable[..., str],
    name: str,
    value: Any,
    words: tuple[str, ...],
) -> None:
    """But for clocks, whose locks NVML tells nobody of."""
    smi(*words, "-i", "0")
    same = run_module(h100, "settings", check=True, rules=[{"match": {"index": 0}, name: value}])
    assert (same["changed"], same["reboot_required"]) == (False, name == "ecc")
    other = run_module(h100, "settings", check=True, rules=[{"match": {"index": 1}, name: value}])
    assert len(other["steps"]) == 1


@pytest.mark.parametrize(
    ("name", "clocks", "undo"),
    [("gpu_clocks", [405, 1200], "-rgc"), ("memory_clocks", 1593, "-rmc")],
)
def test_clocks_that_nvidia_smi_has_unlocked_are_locked_again(
    run_module: Run, h100: Sim, smi: Callable[..., str], name: str, clocks: Any, undo: str
) -> None:
    rules = [{name: clocks}]
    run_module(h100, "settings", rules=rules)
    assert not run_module(h100, "settings", check=True, rules=rules)["changed"]
    smi(undo, "-i", "1")
    (step,) = run_module(h100, "settings", check=True, rules=rules)["steps"]
    assert step["summary"].startswith("GPU 1 ")
    assert f"{name} from not locked to" in step["summary"]


def test_what_was_changed_by_hand_is_put_right_and_what_was_there_before_comes_back(
    run_module: Run, h100: Sim, smi: Callable[..., str]
) -> None:
    smi("-pl", "600", "-i", "1")
    rules = [{"power_limit": 400}, {"match": {"index": 0}, "gpu_clocks": 1200}]
    run_module(h100, "settings", rules=rules)
    smi("-pl", "500", "-i", "0")
    smi("-rgc", "-i", "0")
    put_right = run_module(h100, "settings", rules=rules)
    assert [one["summary"].partition(": ")[2] for one in put_right["steps"]] == [
        "set power_limit from 500 W to 400 W",
        "set gpu_clocks from not locked to 1200 to 1200 MHz",
    ]
    run_module(h100, "settings", rules=[{"match": {"index": 0}, "gpu_clocks": 1200}])
    assert has(smi, "power.limit", "clocks.current.graphics") == ["700.00, 1200", "600.00, 1980"]


def test_another_load_of_the_driver_loses_what_the_next_run_sets_again(
    run_module: Run, h100: Sim, smi: Callable[..., str]
) -> None:
    rules = [{"power_limit": 400, "gpu_clocks": 1200}]
    run_module(h100, "settings", rules=rules)
    h100.ctl("reload")
    assert len(run_module(h100, "settings", rules=rules)["steps"]) == 4
    assert has(smi, "power.limit", "clocks.current.graphics") == ["400.00, 1200"] * 2


def test_a_value_that_a_board_does_not_allow_is_refused_before_any_gpu_is_set(
    run_module: Run, h100: Sim, smi: Callable[..., str]
) -> None:
    rules = [{"power_limit": 400}, {"match": {"index": 1}, "power_limit": 100}]
    refused = run_module(h100, "settings", rules=rules)
    assert refused["failed"]
    assert "rules[1].power_limit: 100 is not valid" in refused["msg"]
    assert "200 to 700 W, which GPU 1 (NVIDIA H100 80GB HBM3) allows" in refused["msg"]
    assert has(smi, "power.limit") == ["700.00"] * 2


def test_a_setter_that_fails_says_which_and_the_next_run_goes_on(
    run_module: Run, h100: Sim, smi: Callable[..., str]
) -> None:
    function = "nvmlDeviceSetPowerManagementLimit"
    h100.ctl("fault", gpu="1", function=function, code=NO_PERMISSION)
    failed = run_module(h100, "settings", rules=[{"power_limit": 400}])
    assert failed["failed"]
    assert "GPU 1 (GPU-" in failed["msg"]
    assert "power_limit can't be set to 400 W" in failed["msg"]
    assert has(smi, "power.limit") == ["400.00", "700.00"]
    h100.ctl("clear-faults")
    assert len(run_module(h100, "settings", rules=[{"power_limit": 400}])["steps"]) == 1
    run_module(h100, "settings", state="absent")
    assert has(smi, "power.limit") == ["700.00"] * 2


@pytest.mark.parametrize("driver", ["590.48.01", "570.86.15"])
def test_power_profiles_are_asked_for_lost_with_the_driver_and_given_back(
    run_module: Run, driver: str
) -> None:
    """By one call from 590 on, by two before it."""
    rules = [{"power_profiles": ["llm_training", "max_q"]}]
    with start("b200", 1, driver=driver) as sim:

        def requested() -> list[int]:
            found: list[int] = sim.ctl("status")["gpus"][0]["power_profiles"]
            return found

        run_module(sim, "settings", rules=[{"power_profiles": "network"}])
        done = run_module(sim, "settings", rules=rules)
        assert [one["summary"].partition(": ")[2] for one in done["steps"]] == [
            "set power_profiles from network to max_q, llm_training"
        ]
        assert requested() == [1, 7]
        again = run_module(sim, "settings", rules=rules)
        assert not again["changed"]
        assert again["gpus"][0]["settings"]["power_profiles"] == ["max_q", "llm_training"]
        assert again["gpus"][0]["enforced"] == {}
        sim.ctl("reload")
        assert requested() == []
        assert run_module(sim, "settings", rules=rules)["changed"]
        run_module(sim, "settings", state="absent")
        assert requested() == []
        refused = run_module(sim, "settings", rules=[{"power_profiles": ["max_p", "max_q"]}])
        assert "max_p and max_q conflict on GPU 0 (NVIDIA B200)" in refused["msg"]
        assert requested() == []


def test_gpus_and_drivers_without_power_profiles_leave_them_out_and_say_so(run_module: Run) -> None:
    for product, driver in (("h100-80", "590.48.01"), ("b200", "550.163.01")):
        with start(product, 1, driver=driver) as sim:
            done = run_module(sim, "settings", rules=[{"power_profiles": "max_q"}])
            assert (done["changed"], done["gpus"][0]["unsupported"]) == (False, ["power_profiles"])


def test_a_cap_of_a_bmc_is_told_and_no_run_after_it_changes_anything(
    run_module: Run, h100: Sim, smi: Callable[..., str]
) -> None:
    h100.ctl("cap", gpu="0", watts=500)
    rules = [{"power_limit": 600}]
    assert run_module(h100, "settings", rules=rules)["changed"]
    shown = smi("-q", "-d", "POWER", "-i", "0").split("GPU Memory")[0]
    assert re.findall(r"(?:Current|Requested) Power Limit +: (\S+) W", shown) == [
        "500.00",
        "600.00",
    ]
    again = run_module(h100, "settings", rules=rules)
    assert not again["changed"]
    assert [one["enforced"] for one in again["gpus"]] == [{"power_limit": 500_000}, {}]
    assert "power_limit is set to 600 W, and 500 W holds" in str(again["warnings"])


def test_a_setting_that_can_not_be_read_is_no_setting_that_is_not_there(
    run_module: Run, h100: Sim
) -> None:
    h100.ctl("fault", gpu="1", function="nvmlDeviceGetComputeMode", code=999)
    refused = run_module(h100, "settings", rules=[{"compute_mode": "default"}])
    assert refused["failed"]
    assert "compute_mode can't be read: unknown error inside the driver" in refused["msg"]
    assert run_module(h100, "settings", rules=[{"power_limit": 600}])["changed"]


@pytest.fixture
def dcgmi(h100: Sim, tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that puts a dcgmi on the machine, and tells how it was asked since."""
    program, asked = tmp_path / "bin/dcgmi", tmp_path / "asked"
    program.parent.mkdir()
    h100.env["PATH"] = f"{program.parent}:{h100.env['PATH']}"

    def answers(configured: str | None = None, listed: str = "", status: int = 0) -> list[str]:
        was = asked.read_text().split() if asked.exists() else []
        asked.unlink(missing_ok=True)
        if configured is not None:
            (tmp_path / "config").write_text(configured)
            (tmp_path / "discovery").write_text(listed)
            program.write_text(f"#!/bin/sh\necho $1 >>{asked}\ncat {tmp_path}/$1\nexit {status}\n")
            program.chmod(0o755)
        return was

    return answers


def test_what_dcgm_enforces_otherwise_is_refused_before_any_gpu_is_set(
    run_module: Run, h100: Sim, smi: Callable[..., str], dcgmi: Callable[..., list[str]]
) -> None:
    """DCGM's numbers of GPUs are its own: its first is NVML's second here."""
    uuids = [one["uuid"] for one in h100.ctl("status")["gpus"]]
    dcgmi(configuration({0: {"Power Limit": "400"}, 1: {}}), discovery(uuids[::-1]))
    refused = run_module(h100, "settings", rules=[{"power_limit": 600}], check=True)
    assert f"GPU 1 ({uuids[1]}): power_limit can't be set to 600 W: DCGM's" in refused["msg"]
    assert "enforces 400 W, and sets it again after a reset" in refused["msg"]
    assert run_module(h100, "settings", rules=[{"power_limit": 600}])["failed"]
    assert has(smi, "power.limit") == ["700.00"] * 2
    rules = [{"power_limit": 600}, {"match": {"index": 1}, "power_limit": 400}]
    assert run_module(h100, "settings", rules=rules)["changed"]


def test_dcgm_is_asked_only_where_something_changes_that_it_sets(
    run_module: Run, h100: Sim, dcgmi: Callable[..., list[str]]
) -> None:
    dcgmi(configuration({0: {}, 1: {}}))
    rules = [{"power_limit": 600}]
    run_module(h100, "settings", rules=rules)
    assert dcgmi() == ["config"]  # where nothing is enforced its numbers are not needed
    assert not run_module(h100, "settings", rules=rules)["changed"]
    run_module(h100, "settings", rules=[*rules, {"accounting": True}])
    run_module(h100, "settings", state="absent")
    assert dcgmi() == []


def test_a_host_engine_that_is_not_there_enforces_nothing_and_one_that_tells_half_is_warned_of(
    run_module: Run, h100: Sim, dcgmi: Callable[..., list[str]]
) -> None:
    nobody = "Error: unable to establish a connection to the specified host: localhost\n"
    dcgmi(nobody, status=235)
    done = run_module(h100, "settings", rules=[{"power_limit": 600}])
    assert done["changed"]
    assert "dcgmi" not in str(done["warnings"])
    dcgmi(configuration({0: {"Power Limit": "400"}}), nobody)
    half = run_module(h100, "settings", rules=[{"power_limit": 500}])
    assert "dcgmi did not tell whether DCGM enforces something else" in str(half["warnings"])


def test_older_gpus_are_set_as_far_as_they_can_be(run_module: Run) -> None:
    """Volta locks no clocks of memory, which is known before anything is set."""
    rules = [{"memory_clocks": 877, "gpu_clocks": 900, "power_limit": 200}]
    with start("v100", 1) as sim:
        done = run_module(sim, "settings", rules=rules)
        assert not run_module(sim, "settings", rules=rules)["changed"]
    assert [one["summary"].partition(": ")[2] for one in done["steps"]] == [
        "set power_limit from 300 W to 200 W",
        "set gpu_clocks from not locked to 900 to 900 MHz",
    ]
    assert done["gpus"][0]["unsupported"] == ["memory_clocks"]


def test_a_setter_that_a_gpu_does_not_have_after_all_says_what_to_leave_out(
    run_module: Run, h100: Sim
) -> None:
    h100.ctl("fault", gpu="0", function="nvmlDeviceSetAccountingMode", code=3)
    refused = run_module(h100, "settings", rules=[{"accounting": True}])
    assert "accounting can't be set to on" in refused["msg"]
    assert "leave accounting out of the rules for NVIDIA H100" in refused["msg"]
