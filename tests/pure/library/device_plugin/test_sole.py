# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node that a pod of the DaemonSet serves is left to it, with a word on both ways out."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import plan
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import PluginState

from tests.fakes.library.agent_nodes import FRESH, PREFIX, RUNNING, WANTED, changed, seen

POD = "the pod gpu-plugin-x7k2p"


@pytest.mark.parametrize("node", [FRESH, RUNNING])
def test_the_service_is_not_started_beside_a_pod(node: PluginState) -> None:
    with pytest.raises(NodeError) as caught:
        plan(changed(node, pod=POD), WANTED, PREFIX)
    said = str(caught.value)
    assert f"another device plugin serves the GPUs of this node: {POD}" in said
    assert "keep the DaemonSet's pods off this node" in said
    assert "gpu_nodes_components" in said


@pytest.mark.parametrize("state", ["installed", "stopped", "absent"])
def test_what_starts_nothing_may_be_done_beside_a_pod(state: str) -> None:
    plan(seen(pod=POD), dataclasses.replace(WANTED, state=state), PREFIX)
