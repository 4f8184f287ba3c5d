# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the driver tells of GPUs' faults, branch by branch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Fabric, FaultSigns, Rows
from nvsim.testing import VERSION, Sim, client, start

ASK = f"""
sys.path.insert(0, {os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0]!r})
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import NvmlError
from ansible_collections.gpu.node.plugins.module_utils._machine.nvml import faults
import dataclasses
n.nvmlInit()
def told(index):
    try:
        handle = n.nvmlDeviceGetHandleByIndex(index)
        signs = dataclasses.asdict(faults.fault_signs(handle))
        return [signs, faults.virtualization(handle), faults.nvlink(handle)]
    except (NvmlError, n.NVMLError) as error:
        return getattr(error, "code", None) or error.value
"""
OLDER_BINDINGS = """
for name in ("nvmlDeviceGetRepairStatus", "nvmlDeviceGetUnrepairableMemoryFlag_v1",
             "nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t", "nvmlDeviceGetGpuFabricInfoV",
             "c_nvmlGpuFabricInfo_v2_t", "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", "nvmlDeviceGetVirtualizationMode"):
    delattr(n, name)
"""
WELL = Rows(0, 0, False, False)


def told(sim: Sim, before: str = "", gpu: int = 0) -> Any:
    found = client(sim, f"{before}{ASK}answer(told({gpu}))")
    return found[0] if isinstance(found, list) else found


def signs(sim: Sim, before: str = "") -> FaultSigns:
    found = told(sim, before)
    rows, fabric = found.pop("rows"), found.pop("fabric")
    return FaultSigns(**found, rows=rows and Rows(*rows), fabric=fabric and Fabric(*fabric))


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[Sim]:
    product, driver = request.param
    with start(product, 2, driver=driver) as sim:
        yield sim


of = pytest.mark.parametrize


@of(
    ("machine", "wanted"),
    [
        (("h100-80", "525.147.05"), FaultSigns(None, WELL, False)),
        (("h100-80", VERSION), FaultSigns(0, WELL, False)),
        (("h100-80", "565.57.01"), FaultSigns(0, WELL, False)),
        (("a100-80", "580.178.04"), FaultSigns(0, WELL, False, False)),
        (("b200", "595.91.07"), FaultSigns(0, WELL, False, False, False)),
        (("v100", "580.178.04"), FaultSigns(0)),
    ],
    indirect=["machine"],
)
def test_what_a_branch_or_a_gpu_does_not_have_is_not_told(machine: Sim, wanted: FaultSigns) -> None:
    assert signs(machine) == wanted


@of("machine", [("h100-80", "595.91.07")], indirect=True)
def test_each_sign_is_told(machine: Sim) -> None:
    machine.ctl("recovery", gpu="0", action=5)
    machine.ctl("rows", gpu="0", correctable=3, uncorrectable=2)
    machine.ctl("ecc", gpu="0", errors=1, pending="on")
    machine.ctl("wear", gpu="0", on="on")
    machine.ctl("sram", gpu="0", errors=9, exceeded="on")
    machine.ctl("repair", gpu="0", what="tpc")
    machine.ctl("repair", gpu="0", what="unrepairable")
    machine.ctl("fabric-state", gpu="0", state=3, status=15, health=1 << 4)
    rows, fabric = Rows(3, 2, True, True), Fabric(3, 15, 16)
    assert signs(machine) == FaultSigns(5, rows, True, True, True, fabric)
    assert told(machine, gpu=1)["recovery"] == 0


@of("machine", [("h100-80", "615.71.09")], indirect=True)
def test_an_action_that_is_not_known_yet_is_told_as_it_is(machine: Sim) -> None:
    for action in (*range(8), 8, 4711):
        machine.ctl("recovery", gpu="0", action=action)
        assert told(machine)["recovery"] == action


@of("machine", [("h100-80", VERSION)], indirect=True)
def test_a_driver_before_the_recovery_action_tells_of_a_reset_that_it_wants(machine: Sim) -> None:
    for action in (1, 4):
        machine.ctl("recovery", gpu="0", action=action)
        assert told(machine)["recovery"] == action


@of("machine", [("h100-80", "595.91.07")], indirect=True)
def test_bindings_that_are_older_ask_for_what_they_have(machine: Sim) -> None:
    machine.ctl("recovery", gpu="0", action=2)
    machine.ctl("repair", gpu="0", what="channel")
    assert signs(machine, OLDER_BINDINGS) == FaultSigns(2, WELL)


@of("machine", [("h100-80", VERSION)], indirect=True)
def test_a_gpu_with_mig_instances_tells_of_no_rows(machine: Sim) -> None:
    mode = "n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0); n.nvmlDeviceSetMigMode(h, 1)\n"
    assert signs(machine, mode).rows == WELL
    assert signs(machine, mode + "n.nvmlDeviceCreateGpuInstance(h, 9)\n").rows is None


@of("machine", [("h100-80", VERSION)], indirect=True)
def test_a_gpu_that_is_lost_or_wants_a_reset_says_so(machine: Sim) -> None:
    for how, code in (("lost", 15), ("reset_required", 16)):
        machine.ctl("lose", gpu="0", how=how)
        assert told(machine) == code
        machine.ctl("restore", gpu="0")


@of(
    ("machine", "generation"),
    [
        (("t4", VERSION), 0),
        (("v100", VERSION), 2),
        (("a100-40", VERSION), 3),
        (("h100-80", VERSION), 4),
        (("b200", VERSION), 5),
    ],
    indirect=["machine"],
)
def test_what_kind_of_machine_it_is(machine: Sim, generation: int) -> None:
    assert client(machine, f"{ASK}answer(told(0)[1:])") == [0, generation]
    machine.ctl("passthrough", on="on")
    assert client(machine, f"{ASK}answer(told(0)[1])") == 1
    machine.ctl("vgpu", on="on")
    assert client(machine, f"{ASK}answer(told(0)[1])") == 2
