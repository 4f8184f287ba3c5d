# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Compute modes that MPS has set and can't give back."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.fakes.mps.mps_sharing import DEFAULT, EXCLUSIVE_PROCESS, GPU, Shared
from tests.support.waiting import eventually

MakeShared = Callable[..., Shared]
THREE = "{resources: [{name: gpu, replicas: 3}]}"


def test_a_compute_mode_that_can_not_be_given_back_is_tried_again_and_told(
    make_shared: MakeShared,
) -> None:
    shared = make_shared(6, THREE, gpus=2)
    node, uuids = shared.node, shared.uuids()
    node.sim.ctl("fault", gpu=uuids[0], function="nvmlDeviceSetComputeMode", code=999)
    node.config.write_text("version: v1\n")
    shared.wait(GPU, 1)
    why = "it was shared by MPS: its compute mode can't be given back"
    eventually(lambda: why in node.problems(GPU).get(uuids[0], ""))
    assert (shared.mode(0), shared.mode(1)) == (EXCLUSIVE_PROCESS, DEFAULT)
    node.sim.ctl("clear-faults")
    shared.wait(GPU, 2)
    assert (shared.mode(0), shared.left()) == (DEFAULT, [])
    assert shared.state(uuids[0])["pid"] == 0


def test_a_compute_mode_that_the_end_could_not_give_back_is_given_back_later(
    make_shared: MakeShared,
) -> None:
    shared = make_shared(6, THREE, gpus=2)
    node = shared.node
    node.sim.ctl("fault", gpu="all", function="nvmlDeviceSetComputeMode", code=999)
    node.signal(signal.SIGTERM)
    assert node.ended() == 0
    assert (shared.mode(0), shared.mode(1)) == (EXCLUSIVE_PROCESS, EXCLUSIVE_PROCESS)
    assert "still waits for clients" not in node.logged()
    node.sim.ctl("clear-faults")
    shared.start_again("")
    shared.wait(GPU, 2)
    assert (shared.mode(0), shared.mode(1)) == (DEFAULT, DEFAULT)
    assert not list(shared.root.glob("*.json"))
