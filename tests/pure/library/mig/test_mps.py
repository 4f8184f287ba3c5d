# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which MPS servers a MIG change may end: ours, without clients, and in its way."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Process
from ansible_collections.gpu.node.plugins.module_utils._base.services.mps import idle_servers
from ansible_collections.gpu.node.plugins.module_utils._mig.plan import (
    GpuPlan,
    GpuState,
    ends,
    plan_gpu,
    without_idle,
)

from tests.fakes.library.grids import A100, GPU, instance

SERVER = "/usr/sbin/nvidia-cuda-mps-server"


def process(pid: int, gi: int | None = None, name: str = SERVER, gpu: str = GPU.uuid) -> Process:
    return Process(pid, name, gpu, gi, None if gi is None else 0)


def test_idle_servers_are_those_without_clients() -> None:
    told = {"pipe": "/run/p", "servers": [{"pid": 4, "clients": []}, {"pid": 5, "clients": [9]}]}
    assert idle_servers([json.dumps(told), None]) == {4: "/run/p"}


@pytest.mark.parametrize(
    "text", ["", "no", "[1]", "{}", '{"servers": [{"pid": "x", "clients": []}]}', '{"servers": 1}']
)
def test_what_is_no_state_of_ours_has_no_servers(text: str) -> None:
    assert idle_servers([text]) == {}


def test_only_an_mps_server_is_left_out_of_the_work() -> None:
    mine, reused, other = process(4), process(5, name="python3"), process(6)
    state = GpuState(GPU, A100, (), (mine, reused, other))
    left, servers = without_idle(state, {4: "/run/p", 5: "/run/p"})
    assert left.processes == (reused, other)
    assert [(one.process, one.pipe) for one in servers] == [(mine, "/run/p")]


def plan(*processes: Process, layout: dict[str, int]) -> tuple[GpuPlan, list[int]]:
    instances = (instance(A100, "3g.20gb", 0, 1), instance(A100, "3g.20gb", 4, 2))
    state = GpuState(GPU, A100, instances, processes)
    left, servers = without_idle(state, {one.pid: "/run/p" for one in processes})
    made = plan_gpu(left, bool(layout), layout)
    return made, [step.params["pid"] for step in ends(made, servers)]


def test_only_what_is_in_the_way_is_ended() -> None:
    made, ended = plan(process(4, 1), process(5, 2), layout={"3g.20gb": 1, "2g.10gb": 1})
    assert len(made.destroyed) == 1
    assert ended == [3 + made.destroyed[0]]
    assert plan(process(4, 1), process(5, 2), layout={"3g.20gb": 2})[1] == []
    assert plan(process(4, 1), process(5, 2), layout={})[1] == [4, 5]
    assert plan(process(4, 1, gpu="GPU-other"), layout={})[1] == []
