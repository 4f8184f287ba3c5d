# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who is in the way of a configuration is said before it is written, and as long as it is so."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.status import STATUS
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import serving
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.registration import KUBELET
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import CONFIG

from tests.fakes.library.agent_host import AgentHost, deploy, parameters

GPU = "GPU-e8f601d1-77c8-55bd-9276-681ef5fb455f"
WHY = "it waits for who holds it in another form: pod team/trainer (container main) with nvidia.com/gpu"


def look(machine: AgentHost, **config: t.Any) -> t.Tuple[str, ...]:
    """Return the warnings of a run in check mode."""
    found = DevicePluginCapability(machine, parameters("r1", 0, **config), check_mode=True)
    return about_pods(found.plan(found.observe()).warnings)


def about_pods(warnings: t.Iterable[str]) -> t.Tuple[str, ...]:
    return tuple(one for one in warnings if "wait" in one)


def tell(machine: AgentHost, reason: str) -> None:
    """Let the daemon say why it gives a device in two shares to nobody."""
    status = json.loads(machine.files[STATUS])
    known = {"devices": {GPU: "Unhealthy"}, "problems": {GPU: WHY}, "shares": {GPU: 2}}
    status["resources"] = {"nvidia.com/gpu": {**known, "registered": True}}
    status["devices"] = [{"uuid": GPU, "index": "0", "reason": reason}]
    machine.files[STATUS] = json.dumps(status)


def test_a_plan_says_which_devices_a_configuration_would_wait_with() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    before = machine.files[CONFIG]
    machine.waits = (f"{GPU}: {WHY}",)
    assert look(machine, more=1) == (f"given to nobody: {GPU}: {WHY}",)
    assert machine.files[CONFIG] == before
    machine.waits = tuple(f"GPU-{number}: {WHY}" for number in range(6))
    assert look(machine, more=1)[-1] == "2 more devices wait for pods"
    assert look(machine) == ()


def test_a_plan_refuses_what_the_daemon_refuses() -> None:
    machine = AgentHost()
    deploy(machine, "r2")
    found = DevicePluginCapability(machine, parameters("r2", 0, unknown=1), check_mode=True)
    with pytest.raises(NodeError, match="config: the device plugin refuses it: r2 refuses"):
        found.plan(found.observe())


def test_what_waits_is_told_in_each_run_and_takes_no_step() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    tell(machine, "held")
    found = DevicePluginCapability(machine, parameters("r1", 0), check_mode=False)
    plan = found.plan(found.observe())
    assert plan.steps == ()
    assert about_pods(plan.warnings) == (f"given to nobody: {GPU}: {WHY}",)


@pytest.mark.parametrize("kubelet", [True, False])
def test_the_answer_of_a_kubelet_that_is_there_is_waited_for(kubelet: bool) -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    if kubelet:
        machine.files[KUBELET] = ""
    tell(machine, "asks")
    found = DevicePluginCapability(machine, parameters("r1", 0), check_mode=False)
    why = f"the kubelet has not said yet whether pods hold {GPU}" if kubelet else ""
    assert serving(found.observe()) == why
