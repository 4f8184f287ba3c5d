# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.validate on the simulated driver."""

from __future__ import annotations

from typing import Any

import pytest
from nvsim.testing import Sim

from tests.machine.modules.mig_scene import THREE, Run, config

PARTS = ["driver", "device_plugin"]


def causes(answer: dict[str, Any]) -> dict[str, str]:
    """Return why each check that fails does, by its name."""
    found = {one["name"]: one["cause"] for one in answer["checks"] if not one["holds"]}
    assert list(found) == answer["failed_checks"]
    return found


@pytest.mark.parametrize("check", [False, True])
def test_validate_names_what_the_driver_and_the_daemon_lack(
    a100: Sim, run_module: Run, check: bool
) -> None:
    """No device plugin runs here: that check fails in each answer, and shows that all of them are named."""
    wanted = {"gpu_count": 2, "components": PARTS}
    answer = run_module(a100, "validate", **wanted, fail=False, check=check)
    assert "failed" not in answer
    assert answer["changed"] is False
    assert list(causes(answer)) == ["device plugin"]
    assert answer["seconds"] > 0

    a100.ctl("lose", gpu="1")
    answer = run_module(a100, "validate", **wanted, check=check)
    assert answer["failed"] is True
    assert answer["changed"] is False
    lost = (
        "validate_gpu_count asks for 2, and 1 of 0 GPUs on the PCI bus answer "
        "(NVML failed while reading GPU 1: the GPU has fallen off the bus)"
    )
    assert causes(answer)["GPUs"] == lost
    assert answer["msg"].splitlines()[1:] == [
        f"GPUs: {lost}. Next step: correct validate_gpu_count, or look for the missing GPUs with lspci -d 10de:",
        "device plugin: the device plugin is not serving (it does not run). "
        "Next step: see the log of gpu-device-plugin.service",
    ]


def test_validate_without_a_device_plugin_is_not_red_for_it(a100: Sim, run_module: Run) -> None:
    """A node for Slurm, with a layout that nobody declared for it."""
    run_module(a100, "mig", config=config(THREE))
    before = a100.ctl("status")["gpus"]
    answer = run_module(a100, "validate", gpu_count=2)
    assert "failed" not in answer
    assert answer["summary"].startswith("ready, 2 GPUs, ")
    states = {one["name"]: one["state"] for one in answer["checks"]}
    assert states["device plugin"] == states["labels"] == states["MIG"] == "skipped"
    assert a100.ctl("status")["gpus"] == before


def test_validate_without_a_driver(a100: Sim, run_module: Run) -> None:
    a100.ctl("unload")
    answer = run_module(a100, "validate", gpu_count=2)
    assert answer["failed"] is True
    assert causes(answer)["driver"].endswith("the NVIDIA driver is not loaded")
    assert "0 of 0 GPUs on the PCI bus answer" in causes(answer)["GPUs"]
