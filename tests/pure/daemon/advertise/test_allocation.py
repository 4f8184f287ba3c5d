# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containers get."""

from __future__ import annotations

import pytest
from gpu_plugin.advertise.allocation import AllocationRefused, UnknownDevice, grant
from gpu_plugin.config.configuration import Config, ContainerConfig, DriverConfig
from gpu_plugin.model.inventory import HostState
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.daemon.gpu_builders import device, enumerate_devices, inventory, view

GPUS = tuple(device(index, index // 4) for index in range(8))
CONTROL = HostState(control_nodes=("/dev/nvidiactl", "/dev/nvidia-uvm"))
NOTHING = HostState()


def test_gpus_are_named_by_uuid() -> None:
    given_ = grant(GPUS, ["GPU-3", "GPU-1"], Config(), CONTROL)
    assert given_.envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-3,GPU-1"}
    assert given_.mounts == given_.nodes == ()


def test_devices_are_named_by_index() -> None:
    config = Config(containers=ContainerConfig(device_id_strategy="index"))
    assert grant(GPUS, ["GPU-3"], config, NOTHING).envs == {"NVIDIA_VISIBLE_DEVICES": "3"}
    now = enumerate_devices(inventory(view(0, "1g.10gb", "1g.10gb")), "single")["nvidia.com/gpu"]
    assert grant(now, ["MIG-0-1"], config, NOTHING).envs == {"NVIDIA_VISIBLE_DEVICES": "0:1"}


def test_device_nodes_come_once_and_from_the_dev_root() -> None:
    now = enumerate_devices(inventory(view(0, "1g.10gb", "1g.10gb")), "single")["nvidia.com/gpu"]
    config = Config(
        driver=DriverConfig(dev_root="/run/nvidia/driver"),
        containers=ContainerConfig(pass_device_specs=True),
    )
    nodes = grant(now, ["MIG-0-0", "MIG-0-1"], config, CONTROL).nodes
    assert [inside for inside, _outside in nodes] == [
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap70",
        "/dev/nvidia-caps/nvidia-cap71",
        "/dev/nvidia-caps/nvidia-cap80",
        "/dev/nvidia-caps/nvidia-cap81",
    ]
    assert all(outside == f"/run/nvidia/driver{inside}" for inside, outside in nodes)


def test_what_can_not_be_granted() -> None:
    with pytest.raises(UnknownDevice, match="unknown device 'GPU-9'"):
        grant(GPUS, ["GPU-9"], Config(), NOTHING)
    with pytest.raises(AllocationRefused, match="'GPU-1' is requested twice"):
        grant(GPUS, ["GPU-1", "GPU-1"], Config(), NOTHING)
    with pytest.raises(AllocationRefused, match="'GPU-0' is unhealthy: XID 79"):
        grant([device(0, problem="XID 79")], ["GPU-0"], Config(), NOTHING)


def names(*numbers: int) -> list[str]:
    return [f"GPU-{number}" for number in numbers]


@given(st.lists(st.sampled_from(names(*range(10)))), st.booleans(), st.booleans())
def test_a_grant_is_for_exactly_what_was_asked(ids: list[str], index: bool, nodes: bool) -> None:
    strategy = "index" if index else "uuid"
    config = Config(
        containers=ContainerConfig(device_id_strategy=strategy, pass_device_specs=nodes)
    )
    try:
        given_ = grant(GPUS, ids, config, CONTROL)
    except AllocationRefused:
        assert len(set(ids)) < len(ids) or set(ids) - {one.id for one in GPUS}
        return
    visible = given_.envs["NVIDIA_VISIBLE_DEVICES"].split(",") if ids else []
    assert len(visible) == len(ids)
    assert len(given_.nodes) == (len(ids) + len(CONTROL.control_nodes) if nodes else 0)
