# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Waiting for a kubelet, on a machine of dictionaries and at a socket of this machine."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    STATUS,
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.registration import KUBELET
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host

from tests.fakes.library.agent_host import KEPT, AgentHost, deploy, parameters, run


class Unregistered(AgentHost):
    """Its daemon has a resource that no kubelet has taken."""

    def start(self) -> None:
        super().start()
        self.register(False)

    def register(self, registered: bool) -> None:
        status = json.loads(self.files[STATUS])
        status["resources"] = {"nvidia.com/gpu": {"registered": registered, "devices": {}}}
        self.files[STATUS] = json.dumps(status)


def required(digest: str, wait: int = 0) -> dict[str, Any]:
    return {**parameters(digest, wait), "require_kubelet": True}


def test_without_a_kubelet_there_is_a_warning() -> None:
    machine = Unregistered()
    found = deploy(machine, "r1")
    told = found.plan(found.observe()).warnings
    assert told[0].startswith("no kubelet has registered the GPUs yet (no kubelet listens at")


def test_a_required_kubelet_that_never_comes_is_an_error() -> None:
    machine = Unregistered()
    deploy(machine, "r1")
    with pytest.raises(NodeError, match="gpu_nodes_require_kubelet is set: no kubelet listens"):
        run(machine, required("r2"))
    # It is not the release's fault: nothing is taken back, and the next run has only this left.
    assert machine.current == "r2"
    assert KEPT not in machine.files
    found = DevicePluginCapability(machine, required("r2"), check_mode=False)
    assert [step.action for step in found.plan(found.observe()).steps] == ["registration"]


def test_the_wait_timeout_is_for_the_kubelet(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, looks = Unregistered(), []

    def news(_self: DevicePluginCapability) -> None:
        looks.append(1)
        if len(looks) == 3:
            machine.files[KUBELET] = ""
            machine.register(True)

    monkeypatch.setattr(DevicePluginCapability, "_await_news", news)
    run(machine, required("r1", 60))
    assert len(looks) == 3


def test_a_socket_that_is_left_is_no_kubelet(tmp_path: Path) -> None:
    path = str(tmp_path / "kubelet.sock")
    assert not Host().listens(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        assert Host().listens(path)
    assert not Host().listens(path)
