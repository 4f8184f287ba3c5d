# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The signs of faults after a load test: GPUs that can't be asked are not taken for GPUs without a fault."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.machine import observe
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._repair.plan import (
    RepairGpu,
    RepairObservation,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import GpuSigns, Xid

HOST = cast("Any", None)


def test_driver_that_does_not_answer_after_the_test_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = RepairObservation(problem="NVML failed while starting NVML: timed out")
    monkeypatch.setattr(observe, "observe_signs", lambda *_args: seen)
    with pytest.raises(NodeError, match="timed out"):
        observe.faults_since(HOST, 0.0)


def test_fault_since_the_test_began_is_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = (RepairGpu(GpuSigns("GPU-1", xids=(Xid(79),))), RepairGpu(GpuSigns("GPU-2")))
    monkeypatch.setattr(observe, "observe_signs", lambda *_args: RepairObservation(gpus=gpus))
    assert set(observe.faults_since(HOST, 0.0)) == {"GPU-1"}
