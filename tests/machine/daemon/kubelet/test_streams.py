# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Streams that nobody reads keep no call waiting."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from gpu_plugin.kubelet.server import Published, ResourceServer
from gpu_plugin.proto.v1beta1 import api_pb2, rpc

from tests.fakes.daemon.gpu_builders import device, snapshot
from tests.support.waiting import LIMIT, eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode

GPU = "nvidia.com/gpu"
MANY = 2000  # more than the window of a stream that nobody reads


@pytest.fixture
def published() -> Published:
    made = Published()
    made.put(snapshot({GPU: (device(0),)}))
    return made


@pytest.fixture
def server(tmp_path: Path, published: Published) -> Iterator[ResourceServer]:
    made = ResourceServer(GPU, tmp_path, published)
    made.start()
    yield made
    made.stop()


def stream(path: Path, stack: contextlib.ExitStack) -> Any:
    """Open a stream of one's own connection, as another process would. It is the newest when it is returned."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channel = stack.enter_context(grpc.insecure_channel(f"unix://{path}", options))
    listen = channel.unary_stream(
        rpc.LIST_AND_WATCH,
        api_pb2.Empty.SerializeToString,
        api_pb2.ListAndWatchResponse.FromString,
    )
    opened = listen(api_pb2.Empty())
    opened.initial_metadata()  # comes with the first answer, which stays unread
    return opened


def allocate(path: Path) -> None:
    """Wait for an allocation."""
    request = api_pb2.AllocateRequest()
    request.container_requests.add(devices_ids=["GPU-0"])
    with grpc.insecure_channel(f"unix://{path}") as channel:
        channel.unary_unary(
            rpc.ALLOCATE,
            request_serializer=api_pb2.AllocateRequest.SerializeToString,
            response_deserializer=api_pb2.AllocateResponse.FromString,
        )(request, timeout=LIMIT)


@pytest.mark.parametrize("count", [8, 9, 40])
def test_streams_that_hang_stop_no_allocate(server: ResourceServer, count: int) -> None:
    with contextlib.ExitStack() as stack:
        kept = [stream(server.socket, stack) for _one in range(count)]
        assert next(kept[-1]).devices  # who came last is served
        for _time in range(5):
            allocate(server.socket)


def test_streams_that_nobody_reads_stop_no_allocate_and_no_end(
    server: ResourceServer, published: Published
) -> None:
    with contextlib.ExitStack() as stack:
        kept = [stream(server.socket, stack) for _one in range(12)]
        for length in range(10):
            devices = (device(0), *(device(number) for number in range(1, MANY + length)))
            published.put(snapshot({GPU: devices}))
            assert any(len(told.devices) == len(devices) for told in kept[-1])  # one does read
        allocate(server.socket)
        server.stop()


def test_a_stream_that_made_room_is_said_to_have_gone(server: ResourceServer) -> None:
    """It may have been the kubelet's, who needs to be told of the plugin again."""
    with contextlib.ExitStack() as stack:
        first = stream(server.socket, stack)
        assert next(first).devices
        assert not server.made_room()
        kept = [stream(server.socket, stack) for _one in range(8)]
        assert all(next(one).devices for one in kept[-4:])
        with pytest.raises(grpc.RpcError):
            list(first)
        assert server.made_room()
        assert not server.made_room()


def test_a_daemon_with_streams_that_hang_serves_and_ends(make_node: MakeNode) -> None:
    from tests.fakes.daemon import running

    node = make_node(1)
    node.start_kubelet()
    node.start_daemon()
    (uuid,) = node.wait(GPU, 1)["devices"]
    path = node.plugins / "nvidia-gpu.sock"
    with contextlib.ExitStack() as stack:
        kept = [stream(path, stack) for _one in range(12)]
        assert next(kept[-1]).devices
        with running.plugin_channel(node) as ask:
            assert ask(uuid) == ""
        # The kubelet's own stream, the oldest, made room, so it is told of the plugin again.
        eventually(lambda: node.logged().count("registered resource=") >= 2)
        node.wait(GPU, 1)
        node.sim.ctl("xid", gpu="0", number=79)
        node.wait(GPU, 0)
        node.signal(signal.SIGTERM)
        assert node.ended() == 0
        del kept
