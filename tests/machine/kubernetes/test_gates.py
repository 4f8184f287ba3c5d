# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the preflight finds out of feature gates, by an API server that has them off."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine.cluster import (
    check,
)

from tests.fakes.kubernetes.administered import OFF, Administered


@pytest.mark.parametrize("gate", ["", "DRAConsumableCapacity", "DRAPartitionableDevices"])
def test_what_a_server_without_a_gate_drops_is_noticed(
    api_server: type[Administered], gate: str, tmp_path: Path
) -> None:
    with api_server(tmp_path, *([OFF.format(gate)] if gate else [])) as server:
        named = {"gpu_nodes_kubeconfig": str(tmp_path / "admin.conf")}
        found = [str(one) for one in check({"gpu_nodes_allocation": "dra", **named})]
        assert len(found) == bool(gate)
        assert all(f"has the feature gate {gate} off" in one for one in found)
        assert server.get("ResourceSlice")["items"] == []  # nothing is left of the trial
