# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.validate reads the node, names what does not hold, and changes nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.validate import (
    SPEC,
    ValidateCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._core.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._core.gpu import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NvmlError,
)
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed, Host
from driver_fakes import FakeNvml
from fakes import FakeHost
from gpu_values import gpu, mig

PLAIN, PARTED = gpu(0), gpu(1, mig=True)
PART = mig(PARTED, 0)
STATUS = (PROGRAM, "status", "--json")
SERVING = {"state": "serving", "resources": {}, "mig_uuids": [PART.uuid]}


def host(status: Any = None, gpus: int = 2) -> FakeHost:
    """Return a machine with GPUs on its bus, on which the daemon tells this, or that it serves."""
    status = SERVING if status is None else status
    files = {}
    for number in range(gpus):
        device = f"/sys/bus/pci/devices/0000:{number + 1:02x}:00.0"
        files |= {
            f"{device}/vendor": "0x10de\n",
            f"{device}/device": "0x20b0\n",
            f"{device}/class": "0x030200\n",
        }
    answer = status if isinstance(status, Completed) else json.dumps(status)
    return FakeHost(files, {STATUS: answer})


def nvml() -> FakeNvml:
    return FakeNvml(PLAIN, PARTED, migs=(PART,))


def capability(
    on: FakeHost | Host, driver: FakeNvml | NvmlError, **params: Any
) -> ValidateCapability:
    @contextlib.contextmanager
    def connect() -> Iterator[Any]:
        if isinstance(driver, NvmlError):
            raise driver
        yield driver

    defaults = {name: option["default"] for name, option in SPEC["argument_spec"].items()}
    return ValidateCapability(on, {**defaults, **params}, connect)


def answer(
    on: FakeHost | Host, driver: FakeNvml | NvmlError, **params: Any
) -> tuple[list[str], dict[str, str]]:
    """Return the names of the checks that do not hold, and the causes by name."""
    one = capability(on, driver, fail=False, **params)
    state = one.observe()
    plan = one.plan(state)
    assert plan.steps == ()
    told = one.result(state, plan)
    return told["failed_checks"], {check["name"]: check["cause"] for check in told["checks"]}


def test_a_node_that_works_passes_and_keeps_what_it_has() -> None:
    machine = host()
    before = dict(machine.files)
    one = capability(machine, nvml())
    state = one.observe()
    plan = one.plan(state)
    assert plan.steps == ()
    assert one.result(state, plan)["failed_checks"] == []
    assert machine.files == before
    assert machine.ran == [STATUS]


def test_every_check_that_does_not_hold_is_named_in_one_failure() -> None:
    one = capability(
        host({"state": "not_running"}), NvmlError(DRIVER_NOT_LOADED, "starting NVML"), gpu_count=8
    )
    with pytest.raises(NodeError) as refused:
        one.plan(one.observe())
    assert str(refused.value).splitlines() == [
        "3 of 11 checks fail",
        "driver: NVML failed while starting NVML: the NVIDIA driver is not loaded. "
        "Next step: run gpu.node.gpu_nodes",
        "GPUs: 0 of 8 GPUs answer. Next step: see the kernel's log for the missing ones",
        "device plugin: the device plugin is not serving (it does not run). "
        "Next step: see the log of gpu-device-plugin.service",
    ]
    assert refused.value.details["failed_checks"] == ["driver", "GPUs", "device plugin"]
    checks = refused.value.details["checks"]
    assert len(checks) == 11
    assert set(checks[0]) == {"name", "holds", "cause", "next_step"}


def test_a_gpu_that_is_lost_is_told() -> None:
    driver = FakeNvml(PLAIN)
    driver.broken.append(NvmlError(GPU_IS_LOST, "reading GPU 1", gpu_index=1))
    failed, causes = answer(host({**SERVING, "mig_uuids": []}), driver)
    assert failed == ["GPUs"]
    assert causes["GPUs"] == (
        "1 of 2 GPUs answer (NVML failed while reading GPU 1: the GPU has fallen off the bus)"
    )
    assert answer(host({**SERVING, "mig_uuids": []}), driver, gpu_count=1)[0] == []


def test_a_gpu_that_breaks_while_it_is_read_counts_as_a_driver_that_does_not_answer() -> None:
    driver = nvml()
    driver.lost = {1}
    failed, causes = answer(host(), driver)
    assert failed == ["driver", "GPUs", "devices"]
    assert "listing MIG devices" in causes["driver"]


@pytest.mark.parametrize(
    "status",
    [
        Completed(127, "", "not found"),
        Completed(1, "", "Traceback"),
        Completed(0, "not JSON", ""),
        Completed(0, "[]", ""),
        Completed(3, '{"state": "not_running", "resources": {}}', ""),
    ],
)
def test_a_daemon_that_cannot_be_asked_is_one_that_does_not_run(status: Completed) -> None:
    failed, causes = answer(host(status), nvml())
    assert failed == ["device plugin", "devices"]
    assert causes["device plugin"] == "the device plugin is not serving (it does not run)"


def test_a_daemon_that_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a genuine process that would sleep for an hour."""
    module = "ansible_collections.gpu.node.plugins.module_utils._capability.validate"
    monkeypatch.setattr(f"{module}.PATIENCE", 0.2)
    monkeypatch.setattr(Host, "which", lambda _self, _name: str(tmp_path / "slow"))
    (tmp_path / "slow").write_text("#!/bin/sh\nexec sleep 3600\n")
    (tmp_path / "slow").chmod(0o755)
    _failed, causes = answer(Host(), nvml(), gpu_count=2)
    assert "no answer within 0.2 s" in causes["device plugin"]
