# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One resource's server, spoken to as the kubelet does."""

from __future__ import annotations

import queue
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from gpu_plugin.config.configuration import Config, ContainerConfig
from gpu_plugin.kubelet.listener import SocketUnusable
from gpu_plugin.kubelet.server import Published, ResourceServer, Snapshot
from gpu_plugin.model.inventory import Device, HostState
from gpu_plugin.proto.v1beta1 import api_pb2, rpc

from tests.fakes.daemon.gpu_builders import device, snapshot
from tests.support.waiting import LIMIT

MIG = "nvidia.com/mig-1g.10gb"


def devices(*those: Device) -> Snapshot:
    return snapshot(
        {MIG: those},
        Config(containers=ContainerConfig(pass_device_specs=True)),
        HostState(("/dev/nvidiactl",)),
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ResourceServer]:
    published = Published()
    made = ResourceServer(MIG, tmp_path, published)
    published.put(devices(device(0, 0), device(1, None), device(2, 1)))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def channel(server: ResourceServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"unix://{server.socket}") as opened:
        yield opened


def ask(channel: grpc.Channel, method: str, request: Any, response: type[Any]) -> Any:
    call = channel.unary_unary(method, type(request).SerializeToString, response.FromString)
    return call(request, timeout=LIMIT)


def watch(channel: grpc.Channel) -> queue.SimpleQueue[dict[str, str] | None]:
    """Each list that the server sends, and None when it ends the stream."""
    heard: queue.SimpleQueue[dict[str, str] | None] = queue.SimpleQueue()
    call = channel.unary_stream(
        rpc.LIST_AND_WATCH,
        api_pb2.Empty.SerializeToString,
        api_pb2.ListAndWatchResponse.FromString,
    )
    stream = call(api_pb2.Empty())

    def listen() -> None:
        try:
            for answer in stream:
                heard.put({one.ID: one.health for one in answer.devices})
        except grpc.RpcError:
            pass
        heard.put(None)

    threading.Thread(target=listen, daemon=True).start()
    return heard


def test_the_socket_is_for_root_alone_and_goes_with_the_server(server: ResourceServer) -> None:
    assert server.socket.name == "nvidia-mig-1g.10gb.sock"
    assert stat.S_IMODE(server.socket.stat().st_mode) == 0o600
    assert server.intact
    server.stop()
    assert not server.socket.exists()


def test_a_removed_or_replaced_socket_is_noticed(server: ResourceServer) -> None:
    server.socket.unlink()
    assert not server.intact
    server.socket.write_text("")
    assert not server.intact
    server.stop()
    assert server.socket.exists()  # it is not ours


def test_preferred_allocation_is_offered(channel: grpc.Channel) -> None:
    answer = ask(
        channel, rpc.GET_DEVICE_PLUGIN_OPTIONS, api_pb2.Empty(), api_pb2.DevicePluginOptions
    )
    assert answer.get_preferred_allocation_available
    assert not answer.pre_start_required


def test_changes_are_streamed_until_the_resource_is_retired(
    server: ResourceServer, channel: grpc.Channel
) -> None:
    heard = watch(channel)
    assert heard.get(timeout=LIMIT) == dict.fromkeys(("GPU-0", "GPU-1", "GPU-2"), "Healthy")
    server._published.put(
        devices(device(0, 0), device(1, None), device(2, 1))
    )  # nothing new, nothing sent
    server._published.put(devices(device(0, problem="XID 79")))
    assert heard.get(timeout=LIMIT) == {"GPU-0": "Unhealthy"}
    assert server.streams == 1
    server._published.put(Snapshot())
    server.stop()
    assert heard.get(timeout=LIMIT) == {}
    assert heard.get(timeout=LIMIT) is None


def test_stopping_alone_does_not_take_devices_away(
    server: ResourceServer, channel: grpc.Channel
) -> None:
    heard = watch(channel)
    assert heard.get(timeout=LIMIT)
    server.stop()
    assert heard.get(timeout=LIMIT) is None


def test_numa_nodes_are_told(server: ResourceServer, channel: grpc.Channel) -> None:
    call = channel.unary_stream(
        rpc.LIST_AND_WATCH,
        api_pb2.Empty.SerializeToString,
        api_pb2.ListAndWatchResponse.FromString,
    )
    first = next(iter(call(api_pb2.Empty())))
    nodes = [[node.ID for node in one.topology.nodes] for one in first.devices]
    assert nodes == [[0], [], [1]]
    assert [one.HasField("topology") for one in first.devices] == [True, False, True]


def allocate(channel: grpc.Channel, *ids: str) -> api_pb2.ContainerAllocateResponse:
    request = api_pb2.AllocateRequest()
    request.container_requests.add(devices_ids=ids)
    answer = ask(channel, rpc.ALLOCATE, request, api_pb2.AllocateResponse)
    return answer.container_responses[0]  # type: ignore[no-any-return]


def test_an_allocated_gpu_has_its_variable_and_device_nodes(channel: grpc.Channel) -> None:
    answer = allocate(channel, "GPU-2")
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-2"}
    assert [(one.host_path, one.permissions) for one in answer.devices] == [
        ("/dev/nvidiactl", "rw"),
        ("/dev/nvidia2", "rw"),
    ]


def test_refusals_have_codes_and_words(server: ResourceServer, channel: grpc.Channel) -> None:
    server._published.put(devices(device(0), device(1, problem="XID 79")))
    for ids, code, words in (
        (("GPU-9",), grpc.StatusCode.NOT_FOUND, "unknown device 'GPU-9'"),
        (("GPU-1",), grpc.StatusCode.INVALID_ARGUMENT, "XID 79"),
        (("GPU-0", "GPU-0"), grpc.StatusCode.INVALID_ARGUMENT, "requested twice"),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            allocate(channel, *ids)
        assert caught.value.code() is code
        assert words in str(caught.value.details())


def test_preferred_devices_are_chosen(channel: grpc.Channel) -> None:
    request = api_pb2.PreferredAllocationRequest()
    request.container_requests.add(available_deviceIDs=["GPU-2", "GPU-0"], allocation_size=1)
    method, response = rpc.GET_PREFERRED_ALLOCATION, api_pb2.PreferredAllocationResponse
    answer = ask(channel, method, request, response)
    assert list(answer.container_responses[0].deviceIDs) == ["GPU-0"]
    request.container_requests[0].allocation_size = 3
    with pytest.raises(grpc.RpcError, match="can't be chosen"):
        ask(channel, method, request, response)


def test_nothing_happens_before_the_start_of_a_container(channel: grpc.Channel) -> None:
    request, response = api_pb2.PreStartContainerRequest(), api_pb2.PreStartContainerResponse
    assert ask(channel, rpc.PRE_START_CONTAINER, request, response) == response()


def test_a_folder_that_can_not_be_used_is_one_kind_of_error(tmp_path: Path) -> None:
    for folder in ("none", "file", "x" * 120):
        (tmp_path / "file").write_text("")
        server = ResourceServer(MIG, tmp_path / folder, Published())
        with pytest.raises(SocketUnusable, match=r"can't listen on .*nvidia-mig-1g\.10gb\.sock"):
            server.start()
        assert not server.intact, folder
        server.stop()
