# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Faults, and resets that are refused, do not help, or lose what was set; by the genuine nvidia-smi where it asks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from unittest.mock import ANY

import pytest
from nvsim.testing import PROJECT, Sim, client, start

from tests.support import helper_process
from tests.support.waiting import eventually

Smi = Callable[..., str]
OPEN = "n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
RESET = ("--gpu-reset", "-i", "0")
IN_USE = "GPU reset unavailable: In use by another client"


def words(text: str) -> str:
    return " ".join(text.split())


def test_nvidia_smi_shows_what_a_gpu_tells_of_its_faults(smi: Smi, h100: Sim) -> None:
    asked = ("-q", "-i", "0", "-d", "RESET_STATUS,ECC,ROW_REMAPPER")
    assert "Reset Required : No Drain and Reset Recommended : No" in words(smi(h100, *asked))
    h100.ctl("recovery", gpu="0", action=4)
    h100.ctl("rows", gpu="0", correctable=3, uncorrectable=2)
    h100.ctl("ecc", gpu="0", errors=1, pending="on")
    h100.ctl("wear", gpu="0", on="on")
    h100.ctl("sram", gpu="0", errors=7, exceeded="on")
    h100.ctl("fabric-state", gpu="0", state=2)
    found = words(smi(h100, *asked))
    for shown in (
        "Reset Required : No Drain and Reset Recommended : Yes",
        "SRAM Uncorrectable SEC-DED : 7",
        "SRAM Threshold Exceeded : Yes",
        "SRAM SM : 7",
        "Correctable Error : 3 Uncorrectable Error : 2 Pending : Yes",
        "Remapping Failure Occurred : Yes",
    ):
        assert shown in found, found
    assert "Fabric State : In Progress" in words(smi(h100, "-q", "-i", "0"))
    h100.ctl("recovery", gpu="0", action=1)
    assert "Reset Required : Yes" in words(smi(h100, *asked))


def test_nvidia_smi_resets_a_gpu_and_loses_what_was_set(smi: Smi, h100: Sim) -> None:
    client(h100, OPEN + "n.nvmlDeviceSetComputeMode(h, 3); n.nvmlDeviceSetMigMode(h, 1)")
    client(h100, OPEN + "n.nvmlDeviceCreateGpuInstance(h, 9)")
    h100.ctl("ecc", gpu="0", errors=1, pending="on")
    h100.ctl("repair", gpu="0", what="channel")
    h100.ctl("recovery", gpu="0", action=1)
    assert "was successfully reset" in smi(h100, *RESET)
    gpu = h100.ctl("status")["gpus"][0]
    for lost in (
        "compute_mode",
        "gis",
        "row_pending",
        "uncorrected",
        "channel_pending",
        "recovery",
    ):
        assert not gpu[lost], lost
    assert gpu["mig_current"] == 1


def test_nvidia_smi_sets_an_ecc_mode_that_a_reset_brings(smi: Smi, h100: Sim) -> None:
    modes = ("--query-gpu=ecc.mode.current,ecc.mode.pending", "--format=csv,noheader", "-i", "0")
    assert "ECC support" in smi(h100, "-e", "0", "-i", "0")
    assert smi(h100, *modes).strip() == "Enabled, Disabled"
    smi(h100, *RESET)
    assert smi(h100, *modes).strip() == "Disabled, Disabled"
    smi(h100, "-e", "1", "-i", "0")
    h100.ctl("reboot")
    assert smi(h100, *modes).strip() == "Enabled, Enabled"


def test_who_has_nvml_open_on_a_gpu_keeps_it_from_a_reset(smi: Smi, h100: Sim) -> None:
    watch = OPEN + "print(1, flush=True); sys.stdin.readline()\n"
    watch += "n.nvmlShutdown(); print(2, flush=True); sys.stdin.readline()"
    words = [sys.executable, "-c", f"import sys, pynvml as n\n{watch}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with helper_process.start(
        words, env=h100.env, text=True, **pipes, ready=helper_process.executed
    ) as monitor:  # type: ignore[call-overload]
        monitor.stdout.readline()
        assert IN_USE in smi(h100, *RESET, status=19)
        assert "was successfully reset" in smi(h100, "--gpu-reset", "-i", "1")
        monitor.stdin.write("\n")
        monitor.stdin.flush()
        monitor.stdout.readline()
        eventually(lambda: "was successfully reset" in smi(h100, *RESET, status=ANY))
        monitor.stdin.write("\n")


def test_nvidia_smi_is_refused_a_reset(smi: Smi, h100: Sim) -> None:
    holder = h100.hold(0)
    assert IN_USE in smi(h100, *RESET, status=19)
    assert "was successfully reset" in smi(h100, "--gpu-reset", "-i", "1")
    assert IN_USE in smi(h100, "--gpu-reset", status=19)  # all, and one of them is in use
    h100.let_go(holder)
    smi(h100, "-pm", "1", "-i", "0")
    assert IN_USE in smi(h100, *RESET, status=19)
    smi(h100, "-pm", "0", "-i", "0")
    assert "was successfully reset" in smi(h100, *RESET)
    h100.ctl("passthrough", on="on")
    assert "GPU reset unavailable: Not Supported" in smi(h100, *RESET, status=3)
    h100.ctl("passthrough", on="off")
    h100.ctl("vgpu", on="on")
    assert "is in vGPU mode" in smi(h100, *RESET, status=3)


@pytest.mark.parametrize(
    ("product", "cables", "manager", "lacks"),
    [
        ("v100", ("0 2", "2 3"), "on", "23"),
        ("v100", ("1 2",), "on", ""),
        ("v100", (), "on", "123"),
        ("t4", (), "on", ""),
        ("a100-80", ("0 2",), "on", ""),
        ("a100-80", (), "on", ""),
        ("a100-80", (), "off", "123"),
        ("h100-80", (), "off", ""),
    ],
)
def test_nvidia_smi_names_the_gpus_that_have_to_be_reset_together(
    smi: Smi, product: str, cables: tuple[str, ...], manager: str, lacks: str
) -> None:
    with start(product, 4) as sim:
        sim.ctl("fabric-manager", on=manager)
        for one in cables:
            sim.ctl("cable", gpu=one[0], other=one[2], links=1)
        shown = smi(sim, *RESET, status=2 if lacks else 0)
        assert [f"GPU {one} (" in shown for one in "123"] == [one in lacks for one in "123"]
        assert "was successfully reset" in smi(sim, "--gpu-reset", "-i", ",".join(f"0{lacks}"))


def test_nvidia_smi_sends_who_lost_a_gpu_to_a_reboot(smi: Smi, h100: Sim) -> None:
    h100.ctl("lose", gpu="0")
    assert "GPU is lost. Reboot the system" in words(smi(h100, *RESET, status=15))


def test_a_gpu_that_died_does_not_come_back(smi: Smi, h100: Sim) -> None:
    uuid = h100.ctl("status")["gpus"][3]["uuid"]
    h100.ctl("die", gpu="3")
    h100.ctl("reset", gpu="3")
    assert h100.ctl("status")["gpus"][3]["lost"]
    h100.restart()
    assert h100.ctl("status")["gpus"][3]["lost"]
    h100.ctl("reboot")
    listed = smi(h100, "-L")
    assert uuid not in listed
    assert listed.count("GPU-") == 7
    assert len(list((h100.root / "sys/bus/pci/devices").iterdir())) == 7


def test_a_gpu_that_dies_in_its_reset_was_there_before(smi: Smi, h100: Sim) -> None:
    h100.ctl("die", gpu="3", at="reset")
    assert not h100.ctl("status")["gpus"][3]["lost"]
    smi(h100, "--gpu-reset", "-i", "3")
    assert h100.ctl("status")["gpus"][3]["lost"]


def test_nvidia_smi_resets_a_gpu_that_answers_nothing_else_before(smi: Smi, h100: Sim) -> None:
    h100.ctl("lose", gpu="0", how="reset_required")
    ask = OPEN + "answer(code(n.nvmlDeviceGetMemoryInfo, h))"
    assert client(h100, ask) == 16
    smi(h100, "-pm", "1", "-i", "0")
    assert IN_USE in smi(h100, *RESET, status=19)
    smi(h100, "-pm", "0", "-i", "0")
    assert "was successfully reset" in smi(h100, *RESET)
    assert client(h100, ask) == 0


def test_memory_that_is_worn_outlives_resets_and_boots(h100: Sim) -> None:
    h100.ctl("rows", gpu="0", correctable=1, uncorrectable=8)
    h100.ctl("wear", gpu="0", on="on")
    for verb, arguments in (("reset", {"gpu": "0"}), ("reboot", {}), ("restart", None)):
        h100.restart() if arguments is None else h100.ctl(verb, **arguments)
        assert client(h100, OPEN + "answer(n.nvmlDeviceGetRemappedRows(h))") == [1, 8, 0, 1]


@pytest.mark.parametrize(
    ("driver", "can", "cannot"),
    [
        ("550.163.01", (0, 1, 4), (2, 3, 5, 8)),
        ("565.57.01", (0, 1, 2, 3, 8), (4, 5, 6, 7)),
        ("570.211.01", (4, 8), (5, 6, 7)),
        ("595.91.07", (4, 5), (6, 7)),
        ("615.71.09", (5, 6, 7), ()),
    ],
)
def test_a_driver_asks_for_what_its_branch_has(
    driver: str, can: tuple[int, ...], cannot: tuple[int, ...]
) -> None:
    ask = (
        OPEN + "(v,) = n.nvmlDeviceGetFieldValues(h, [230]); answer([v.nvmlReturn, v.value.uiVal])"
    )
    with start("h100-80", 1, driver=driver) as sim:
        for action in can:
            sim.ctl("recovery", gpu="0", action=action)
            assert client(sim, ask) == ([3, 0] if driver.startswith("550") else [0, action])
        for action in cannot:
            with pytest.raises(ValueError, match=f"does not ask for {action}"):
                sim.ctl("recovery", gpu="0", action=action)


def test_xid_154_tells_of_a_changed_recovery_action() -> None:
    listen = (
        OPEN
        + """
events = n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, events)
control = Client()
heard = []
for action in (1, 1, 0, 0):
    control.ask("recovery", gpu="0", action=action)
    try: heard.append(n.nvmlEventSetWait_v2(events, 1).eventData)
    except n.NVMLError: heard.append(0)
answer(heard)
"""
    )
    path = f"sys.path.insert(0, {str(PROJECT)!r})\nfrom nvsim.ctl import Client\n"
    with start("h100-80", 1, driver="570.211.01") as sim:
        assert client(sim, path + listen) == [154, 0, 154, 0]


def test_fields_of_the_fabric_that_a_branch_does_not_have_are_refused() -> None:
    ask = (
        OPEN
        + """
info = n.c_nvmlGpuFabricInfo_v3_t()
answer([code(n.nvmlDeviceGetGpuFabricInfoV, h, ctypes.byref(info)), info.state, info.healthMask])
"""
    )
    for driver, wanted in (("570.211.01", [25, 0, 0]), ("580.178.04", [0, 3, 21])):
        with start("h100-80", 1, driver=driver) as sim:
            sim.ctl("fabric-state", gpu="0", state=3, health=21)
            assert client(sim, ask) == wanted
