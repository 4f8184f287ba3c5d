# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node at its first boot: what cloud-init is about to install is not missed before it had its time."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.capability import (
    PreflightCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.preflight import SPEC
from ansible_collections.gpu.node.plugins.module_utils._node.machine import cloud_init

from tests.fakes.clock import Clock
from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import FakeRoom

STATUS = ("cloud-init", "status", "--long")
RUNNING = "status: running\ndetail: DataSourceNoCloud\n"
VERSION = "containerd github.com/containerd/containerd 1.7.24 x"


def look(host: FakeHost, seconds: int, **variables: Any) -> dict[str, Any]:
    params = {
        "variables": variables,
        "components": SPEC["argument_spec"]["components"]["default"],
        "cloud_init_timeout": seconds,
        "refused": [],
    }
    one = PreflightCapability(host, FakeRoom(), params, root=True)  # type: ignore[arg-type]
    state = one.observe()
    return one.result(state, one.plan(state))


@pytest.fixture
def booting(host: FakeHost) -> FakeHost:
    """Return a node on which cloud-init has not installed the container runtime yet."""
    del host.commands["containerd", "--version"]
    host.commands[STATUS] = RUNNING
    return host


def test_the_node_is_looked_at_after_its_first_boot(
    booting: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(_clock: Clock) -> None:
        booting.commands["containerd", "--version"] = VERSION
        booting.files[cloud_init.RESULT] = "{}"

    monkeypatch.setattr(cloud_init, "time", Clock(at=installed))
    assert len(look(booting, 600)["gpu_info"]["pci_gpus"]) == 4
    assert booting.ran.count(STATUS) == 1


def test_wrong_variables_are_told_without_waiting(booting: FakeHost) -> None:
    with pytest.raises(NodeError) as caught:
        look(booting, 600, mig_selected="hafl")
    assert "as one thing has to be corrected first:\n- mig_selected: 'hafl'" in str(caught.value)


def test_a_first_boot_that_takes_too_long_is_no_missing_runtime(
    booting: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_init, "time", Clock())
    with pytest.raises(NodeError, match="cloud-init is still at work"):
        look(booting, 1, cdi_path="/etc/cdi/nvidia.yaml")


def test_who_does_not_wait_hears_of_the_runtime(booting: FakeHost) -> None:
    with pytest.raises(NodeError, match="no container runtime is installed"):
        look(booting, 0)
