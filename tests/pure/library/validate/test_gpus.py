# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The specification on disk against the one that would be written now."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cdi.boot import CONFIG, Options, dump
from ansible_collections.gpu.node.plugins.module_utils._cdi.machine.driver_files import DriverFiles
from ansible_collections.gpu.node.plugins.module_utils._cdi.machine.specify import specify
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.cdi import (
    SpecificationState,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.gpus import current
from ansible_collections.gpu.node.plugins.module_utils._machine.nvml.real import inventory

from tests.fakes.library.gpu_values import gpu, mig
from tests.fakes.packages.driver_fakes import CDI_SPEC, VERSION, FakeNvml, HostWithDriver

PARTED = gpu(1, mig=True)
OPTIONS = Options(CDI_SPEC)


@pytest.fixture
def nvml() -> Any:
    return FakeNvml(gpu(0), PARTED, migs=(mig(PARTED, 0),))


@pytest.fixture
def machine(nvml: Any) -> HostWithDriver:
    """Return a machine with the specification that its driver wants."""
    found = HostWithDriver()
    for number in range(40):
        found.files[f"/dev/nvidia-caps/nvidia-cap{number * 10}"] = ""
    found.files[CONFIG] = dump(OPTIONS)
    files = DriverFiles(found, "/")  # type: ignore[arg-type]
    found.files[CDI_SPEC] = specify(inventory(nvml), files, OPTIONS)[0].text
    return found


def found(machine: HostWithDriver, nvml: Any) -> SpecificationState:
    return current(machine, nvml)  # type: ignore[arg-type]


def test_one_that_was_just_written_is_current(machine: HostWithDriver, nvml: Any) -> None:
    assert machine.names()
    assert found(machine, nvml) == SpecificationState()


def test_what_changed_since_is_named(machine: HostWithDriver, nvml: Any) -> None:
    spec = machine.spec()
    gone = spec["containerEdits"]["mounts"].pop()["containerPath"]
    spec["containerEdits"]["deviceNodes"].append({"path": "/dev/nvidia-old"})
    machine.files[CDI_SPEC] = json.dumps(spec)
    differences = found(machine, nvml).differences
    assert "has the node /dev/nvidia-old" in differences
    assert any(one.startswith("lacks the mount ") and gone in one for one in differences)
    assert len(differences) == 2


def test_a_socket_that_came_later_is_no_fault(machine: HostWithDriver, nvml: Any) -> None:
    machine.files["/run/nvidia-fabricmanager/socket"] = ""
    assert found(machine, nvml) == SpecificationState()


def test_libraries_of_another_driver_are_noticed(machine: HostWithDriver, nvml: Any) -> None:
    machine.files[CDI_SPEC] = machine.files[CDI_SPEC].replace(
        f"libcuda.so.{VERSION}", "libcuda.so.1.2"
    )
    assert any("libcuda" in one for one in found(machine, nvml).differences)


@pytest.mark.parametrize(
    "text", ["kind: nvidia.com/gpu", "[]", "{}", '{"devices": [1]}', '{"devices": {}}']
)
def test_another_s_file_is_none_of_ours(machine: HostWithDriver, nvml: Any, text: str) -> None:
    machine.files[CDI_SPEC] = text
    differences = found(machine, nvml).differences
    assert differences == ("it is no specification of gpu.node",) or text == '{"devices": {}}'
    assert differences


def test_one_that_is_gone(machine: HostWithDriver, nvml: Any) -> None:
    del machine.files[CDI_SPEC]
    assert found(machine, nvml).differences == (f"{CDI_SPEC} is not there",)
    del machine.files[CONFIG]
    assert found(machine, nvml) == SpecificationState()
    machine.files[CONFIG] = "{"
    assert f"{CONFIG} is damaged" in found(machine, nvml).unknown
