# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What each kind of machine lets be reset, by the genuine nvidia-smi, which names GPUs that go together itself."""

from __future__ import annotations

import pytest

from tests.machine.library.repair.reset.scene import LISTED, PLUGIN, RESET, Scene, uuids

FABRIC = "nvidia-fabricmanager.service"


@pytest.mark.parametrize("name", ["vgpu", "passthrough"])
def test_virtual_machine_resets_no_gpu(sick: Scene, name: str) -> None:
    sick.sim.ctl(name, on="on")
    failed = sick.run(gpus=["0"], reset="always", **LISTED)
    words = {
        "vgpu": "a vGPU guest can't reset its GPU",
        "passthrough": "reset with its virtual machine",
    }
    assert words[name] in failed["failed"]
    assert sick.ran() == []


@pytest.mark.parametrize("machine", ["a100-80"], indirect=True)
def test_a100_behind_switches_is_reset_by_itself_while_the_fabric_manager_runs(
    machine: Scene,
) -> None:
    machine.change(services={FABRIC: True})
    machine.run(gpus=["0"], reset="always")
    assert machine.ran() == [RESET]


@pytest.mark.parametrize("machine", ["a100-80"], indirect=True)
def test_a100s_behind_switches_are_reset_together_without_a_fabric_manager(machine: Scene) -> None:
    machine.sim.ctl("fabric-manager", on="off")
    failed = machine.run(gpus=["0"], reset="always")
    assert "can't be reset without others" in failed["failed"]
    assert failed["together"] == uuids(machine, 1, 2, 3)
    assert machine.ran() == []
    done = machine.run(gpus=["0"], reset="always", together=True)
    assert done["reset"] == uuids(machine, 0, 1, 2, 3)
    assert machine.ran() == ["nvidia-smi --gpu-reset"]


def test_all_gpus_with_their_switches_are_reset_while_the_fabric_manager_is_stopped(
    machine: Scene,
) -> None:
    machine.change(services={FABRIC: True, PLUGIN: True})
    machine.run(gpus=["all"], reset="always", together=True)
    names = [PLUGIN, FABRIC]
    away, back = (
        [f"systemctl stop {one}" for one in names],
        [f"systemctl start {one}" for one in names],
    )
    assert machine.ran() == [*away, "nvidia-smi --gpu-reset", *reversed(back)]
    machine.run(gpus=["all"], reset="always")
    assert len([one for one in machine.ran() if "--gpu-reset -i" in one]) == 4


@pytest.mark.parametrize("machine", ["b200"], indirect=True)
def test_fabric_manager_of_nvlink_5_stays_while_all_gpus_are_reset(machine: Scene) -> None:
    machine.change(services={FABRIC: True})
    machine.run(gpus=["all"], reset="always", together=True)
    assert machine.ran() == ["nvidia-smi --gpu-reset"]


@pytest.mark.parametrize("machine", ["v100"], indirect=True)
def test_gpus_before_ampere_are_reset_with_those_that_nvlink_connects(machine: Scene) -> None:
    machine.sim.ctl("cable", gpu="0", other="2", links=1)
    failed = machine.run(gpus=["0"], reset="always")
    assert failed["together"] == uuids(machine, 2)
    machine.run(gpus=["0", "2", "3"], reset="always")
    assert machine.ran() == ["nvidia-smi --gpu-reset -i 0,2", "nvidia-smi --gpu-reset -i 3"]
