# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a daemon meets in a long life: restarts, rubbish, rivals and very many requests."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from gpu_plugin.proto.v1beta1 import api_pb2, rpc

if TYPE_CHECKING:
    from conftest import MakeNode
    from running import Node

running = pytest.importorskip("running", exc_type=ImportError)
eventually = running.eventually
pytestmark = pytest.mark.slow

GPU = "nvidia.com/gpu"
SHARED = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 100}]}}"


def held(node: Node) -> tuple[int, int, int]:
    """How many descriptors and threads the daemon has, and how many KiB of memory."""
    assert node.daemon is not None
    proc = Path(f"/proc/{node.daemon.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    return (
        len(list((proc / "fd").iterdir())),
        int(status["Threads"]),
        int(status["VmRSS"].split()[0]),
    )


def ask(channel: grpc.Channel, method: str, request: Any, response: type[Any]) -> Any:
    call = channel.unary_unary(method, type(request).SerializeToString, response.FromString)
    return call(request, timeout=5)


def requests(node: Node, ids: list[str], count: int) -> None:
    prefer, allocate = api_pb2.PreferredAllocationRequest(), api_pb2.AllocateRequest()
    prefer.container_requests.add(available_deviceIDs=ids, allocation_size=1)
    allocate.container_requests.add(devices_ids=ids[:1])
    with grpc.insecure_channel(f"unix://{node.plugins}/nvidia-gpu.sock") as channel:
        for _time in range(count):
            ask(channel, rpc.ALLOCATE, allocate, api_pb2.AllocateResponse)
            ask(
                channel,
                rpc.GET_PREFERRED_ALLOCATION,
                prefer,
                api_pb2.PreferredAllocationResponse,
            )


def test_many_requests_leave_nothing_behind(make_node: MakeNode) -> None:
    node = make_node(8)
    node.start_kubelet()
    node.start_daemon(SHARED)
    ids = list(node.wait(GPU, 800)["devices"])
    requests(node, ids, 200)
    before = held(node)
    requests(node, ids, 1000)
    after = held(node)
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1] + 2
    assert after[2] <= before[2] + 4096


def test_a_kubelet_that_restarts_again_and_again(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 2)
    before = held(node)
    for _time in range(10):
        node.ask("restart")
        node.wait(GPU, 2)
    assert node.admit("one", gpu=1)["envs"]
    after = held(node)
    assert after[0] <= before[0] + 4
    assert after[1] <= before[1] + 4


def test_rubbish_on_the_socket_harms_nobody(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 2)
    for data in (b"", b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 400):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(2)
            channel.connect(str(node.plugins / "nvidia-gpu.sock"))
            try:
                channel.sendall(data)
            except (BrokenPipeError, ConnectionResetError, TimeoutError):
                continue
    with grpc.insecure_channel(f"unix://{node.plugins}/nvidia-gpu.sock") as channel:
        call = channel.unary_unary(rpc.ALLOCATE)
        with pytest.raises(grpc.RpcError):
            call(b"\xff\xff\xff", timeout=5)
    assert node.admit("one", gpu=2)["envs"]


def test_a_daemon_that_is_killed_and_started(make_node: MakeNode) -> None:
    node = make_node(2)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 2)
    for _time in range(3):
        node.signal(signal.SIGKILL)
        node.ended()
        node.wait(GPU, 0)
        node.start_daemon()
        node.wait(GPU, 2)
    assert node.admit("one", gpu=2)["envs"]


def test_a_mig_layout_that_changes_again_and_again(make_node: MakeNode) -> None:
    node = make_node(1)
    node.layout(0, "1g.10gb")
    node.start_kubelet()
    node.start_daemon("flags: {migStrategy: mixed}")
    for profiles in (["3g.40gb", "1g.10gb"], ["1g.10gb"] * 4, ["2g.20gb"], [], ["1g.10gb"] * 7):
        node.layout(0, *profiles)
    node.wait("nvidia.com/mig-1g.10gb", 7)
    eventually(
        lambda: {n: c for n, c in node.resources().items() if c} == {"nvidia.com/mig-1g.10gb": 7}
    )
    assert node.status()["state"] == "serving"
