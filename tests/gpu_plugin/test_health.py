# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""When a GPU is unfit, and when it is fit again."""

from __future__ import annotations

import pytest
from gpu_builders import inventory, view
from gpu_plugin.devices import Inventory, enumerate_devices
from gpu_plugin.health import APPLICATION_XIDS, Health

GPUS = inventory(view(0), view(1, "1g.10gb", "1g.10gb"))


def problems(health: Health, now: Inventory = GPUS, generation: object = 1) -> dict[str, str]:
    found = enumerate_devices(health.judge(now, generation), "mixed")
    return {one.id: one.problem for devices in found.values() for one in devices}


@pytest.fixture
def health() -> Health:
    made = Health()
    assert set(problems(made).values()) == {""}
    return made


def test_an_xid_concerns_all_that_is_made_of_the_gpu(health: Health) -> None:
    assert health.xid("GPU-1", 79)
    assert problems(health) == {"GPU-0": "", "MIG-1-0": "XID 79", "MIG-1-1": "XID 79"}


@pytest.mark.parametrize("number", sorted(APPLICATION_XIDS))
def test_an_applications_own_fault_is_no_fault_of_the_gpu(health: Health, number: int) -> None:
    assert not health.xid("GPU-0", number)
    assert problems(health)["GPU-0"] == ""


def test_that_it_answers_does_not_make_it_fit_again(health: Health) -> None:
    health.xid("GPU-0", 48)
    lost = inventory(view(0), view(1, problem="lost"))
    for now in (GPUS, GPUS, lost, GPUS):  # nor does another GPU that comes and goes
        assert problems(health, now)["GPU-0"] == "XID 48"
    assert not health.xid("GPU-0", 79)
    assert problems(health)["GPU-0"] == "XID 48"


def test_a_driver_that_was_loaded_anew_makes_it_fit_again(health: Health) -> None:
    health.xid("GPU-0", 48)
    assert problems(health, generation=2)["GPU-0"] == ""


def test_a_reset_makes_it_fit_again(health: Health) -> None:
    health.xid("GPU-0", 79)
    assert problems(health, inventory(view(0, problem="lost")))["GPU-0"] == "lost"
    assert problems(health)["GPU-0"] == ""
