# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What root sets on GPUs, by the genuine nvidia-smi: limits, errors, and what is lost with what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nvsim.testing import Sim, client, start

Smi = Callable[..., str]
ONE = ("-i", "0")
OPEN = "n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
SHOWN = (
    "persistence_mode",
    "power.limit",
    "power.default_limit",
    "power.min_limit",
    "power.max_limit",
    "clocks.max.graphics",
    "clocks.max.memory",
    "clocks.current.graphics",
    "clocks.current.memory",
    "compute_mode",
    "accounting.mode",
)
AS_BOOTED = (
    "Disabled, 700.00 W, 700.00 W, 200.00 W, 700.00 W, 1980 MHz, 2619 MHz, 1980 MHz, 2619 MHz, "
    "Default, Disabled"
)
SETTERS = (
    "nvmlDeviceSetPowerManagementLimit(h, 400000)",
    "nvmlDeviceSetGpuLockedClocks(h, 345, 1200)",
    "nvmlDeviceResetGpuLockedClocks(h)",
    "nvmlDeviceSetMemoryLockedClocks(h, 1593, 1593)",
    "nvmlDeviceSetAccountingMode(h, 1)",
    "nvmlDeviceSetComputeMode(h, 3)",
    "nvmlDeviceSetEccMode(h, 0)",
    "nvmlDeviceSetPersistenceMode(h, 1)",
)


def shown(smi: Smi, sim: Sim) -> str:
    return smi(sim, f"--query-gpu={','.join(SHOWN)}", "--format=csv,noheader", *ONE).strip()


def set_all(smi: Smi, sim: Sim) -> None:
    for words in (
        ("-pm", "1"),
        ("-pl", "450"),
        ("-lgc", "405,1200"),
        ("-lmc", "1593,1593"),
        ("-c", "EXCLUSIVE_PROCESS"),
        ("-am", "1"),
    ):
        smi(sim, *words, *ONE)


def test_nvidia_smi_sets_a_gpu_and_no_other(smi: Smi, h100: Sim) -> None:
    assert shown(smi, h100) == AS_BOOTED
    set_all(smi, h100)
    now = (
        "Enabled, 450.00 W, 700.00 W, 200.00 W, 700.00 W, 1980 MHz, 2619 MHz, 1200 MHz, 1593 MHz, "
        "Exclusive_Process, Enabled"
    )
    assert shown(smi, h100) == now
    other = h100.ctl("status")["gpus"][1]
    assert [other[name] for name in ("power_limit", "graphics_lock", "accounting")] == [0, None, 0]
    smi(h100, "-rgc", *ONE)
    smi(h100, "-rmc", *ONE)
    assert "1980 MHz, 2619 MHz, 1980 MHz, 2619 MHz" in shown(smi, h100)


def test_a_gpu_in_mig_mode_has_no_compute_mode_to_set(smi: Smi, h100: Sim) -> None:
    smi(h100, "-mig", "1", *ONE)
    told = smi(h100, "-c", "EXCLUSIVE_PROCESS", *ONE)
    assert "is not supported on a MIG-enabled device" in told
    assert "Default" in shown(smi, h100)


def test_a_switch_of_mig_mode_resets_a_gpu_that_has_it_in_its_inforom(
    smi: Smi, h100: Sim, a100: Sim
) -> None:
    kept = []
    for sim in (a100, h100):
        smi(sim, "-pl", "300", *ONE)
        smi(sim, "-mig", "1", *ONE)
        kept.append(smi(sim, "--query-gpu=power.limit", "--format=csv,noheader", *ONE).strip())
    assert kept == ["400.00 W", "300.00 W"]


def test_a_load_of_the_driver_loses_all_that_is_not_in_the_inforom(smi: Smi, h100: Sim) -> None:
    set_all(smi, h100)
    h100.ctl("reload")
    assert shown(smi, h100) == AS_BOOTED


def test_a_power_limit_that_the_board_does_not_allow_is_refused(smi: Smi, h100: Sim) -> None:
    assert "not a valid power limit which should be between 200.00 W and 700.00 W" in smi(
        h100, "-pl", "900", *ONE, status=2
    )
    assert shown(smi, h100) == AS_BOOTED


def test_the_clocks_that_a_board_has_are_told(smi: Smi, h100: Sim) -> None:
    text = smi(h100, "-q", "-d", "SUPPORTED_CLOCKS", *ONE)
    assert "2619 MHz" in text
    assert "1980 MHz" in text
    assert "1981 MHz" not in text


def test_older_gpus_lock_no_clocks_of_memory() -> None:
    with start("t4", 1) as sim:
        said = client(
            sim,
            f"{OPEN}n.nvmlDeviceSetGpuLockedClocks(h, 300, 900)\n"
            "answer(code(n.nvmlDeviceSetMemoryLockedClocks, h, 405, 405))",
        )
    assert said == 3


@pytest.mark.parametrize("setter", SETTERS)
def test_only_root_sets(h100: Sim, setter: str) -> None:
    function, _bracket, rest = setter.partition("(")
    code = f"os.setgroups([]); os.setgid(65534); os.setuid(65534)\n{OPEN}"
    assert client(h100, f"{code}answer(code(n.{function}, {rest})") == 4
