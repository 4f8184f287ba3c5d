# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which share of a device is free to be tried, and that it is what a pod gets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from gpu_plugin._shared._base.dra.names import DRA
from gpu_plugin.advertise.overview import Row, Use
from gpu_plugin.model.mps.settings import Offer
from gpu_plugin.mps.state import EMPTY
from gpu_plugin.report.free_shares import free_shares

from tests.fakes.mps.mps_builders import UUID, offer, state

GPU = "nvidia.com/gpu"


def row(used: int, shares: int = 4, health: str = "Healthy") -> Row:
    used_by = [Use("default", f"pod-{number}", "main", 1) for number in range(used)]
    return Row("0", "H100", UUID, GPU, shares, health, used_by=used_by)


def daemon(share: Offer | None = None, **changes: Any) -> dict[str, Any]:
    share = share or offer()
    return {**EMPTY, **state(share), "device": UUID, "multi_user": True, **changes}


def devices(used: int, *, holders_known: bool = True, **changes: Any) -> list[str]:
    shares = free_shares([row(used)], [daemon(**changes)], holders_known=holders_known)
    return [share["device"] for share in shares]


@pytest.mark.parametrize("root", ["/run/gpu-node/mps", "/run/nvidia/mps"])
def test_free_share_is_what_a_pod_gets(root: str) -> None:
    share = offer(root=root)
    (free,) = free_shares([row(3)], [daemon(share)], holders_known=True)
    part = share.part(1)
    assert free["env"] == part.envs
    assert free["mounts"] == [mount._asdict() for mount in part.mounts]
    assert free["mounts"][0]["outside"] == f"{root}/{UUID}/ipc/pipe"
    assert asdict(part)["envs"]["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"


def test_share_of_a_pod_is_not_free() -> None:
    assert devices(3) == [UUID]
    assert devices(4) == []
    for none in (row(0, shares=0), row(0, health="Unhealthy")):
        assert free_shares([none], [daemon()], holders_known=True) == []


def test_device_with_clients_is_joined_only_where_that_takes_nothing() -> None:
    assert devices(1, clients=1) == [UUID]
    assert devices(1, clients=1, multi_user=False) == []
    assert devices(1, clients=1, holders_known=False) == []
    assert devices(0, holders_known=False) == [UUID]


def test_daemon_without_limits_in_place_has_no_free_share() -> None:
    assert devices(0, state="starting") == []
    assert devices(0, problem="a fault") == []
    assert devices(0, settings={}) == []
    claims = offer(owner=DRA)
    assert free_shares([row(0)], [daemon(claims)], holders_known=True) == []
