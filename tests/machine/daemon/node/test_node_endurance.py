# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a daemon meets in a long life: restarts, rubbish, rivals and very many requests."""

from __future__ import annotations

import contextlib
import hashlib
import resource
import signal
import socket
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from gpu_plugin.proto.v1beta1 import api_pb2, rpc
from nvsim.ctl import Client

from tests.fakes.daemon.running import GPU
from tests.support.growth import check, held, watch
from tests.support.helper_process import spent
from tests.support.waiting import LIMIT, eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node


LOADED = 32_768  # bytes for a driver that is loaded anew
SHARED = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 100}]}}"


def ask(channel: grpc.Channel, method: str, request: Any, response: type[Any]) -> Any:
    call = channel.unary_unary(method, type(request).SerializeToString, response.FromString)
    return call(request, timeout=LIMIT)


def requests(node: Node, ids: list[str], count: int) -> None:
    """Make so many allocations, and a tenth as many preferences."""
    prefer, allocate = api_pb2.PreferredAllocationRequest(), api_pb2.AllocateRequest()
    prefer.container_requests.add(available_deviceIDs=ids, allocation_size=1)
    allocate.container_requests.add(devices_ids=ids[:1])
    with grpc.insecure_channel(f"unix://{node.plugins}/nvidia-gpu.sock") as channel:
        for number in range(count):
            ask(channel, rpc.ALLOCATE, allocate, api_pb2.AllocateResponse)
            if number % 10:
                continue
            ask(
                channel,
                rpc.GET_PREFERRED_ALLOCATION,
                prefer,
                api_pb2.PreferredAllocationResponse,
            )


def process(node: Node) -> int:
    assert node.daemon is not None
    return int(node.daemon.pid)


@pytest.mark.endurance
def test_many_requests_leave_nothing_behind(make_node: MakeNode) -> None:
    node = make_node(8)
    node.serve(800, SHARED)
    ids = list(node.health(GPU))
    check(watch(process(node), lambda: requests(node, ids, 3000)), 3000, budget=64)


@pytest.mark.endurance
def test_a_kubelet_that_restarts_again_and_again(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)

    def restarts() -> None:
        for number in range(12):
            node.ask("restart")
            if number % 4 == 3:  # the others end while the daemon is at it
                node.wait(GPU, 2)

    check(watch(process(node), restarts, warm=30), 12, budget=1024)  # settles late
    assert node.admit("one", gpu=1)["envs"]


@pytest.mark.endurance
def test_a_storm_of_xids_leaves_nothing_behind(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2, "", "--recovery-period", "600", DP_ENABLE_HEALTHCHECKS="94")
    sent = [1]
    node.sim.ctl("xid", gpu="0", number=31)
    eventually(lambda: "xid=31" in node.logged())
    director = Client(str(node.sim.socket))

    def storm() -> None:
        for number in range(1500):
            director.ask("xid", gpu="0", number=(31, 43, 94)[number % 3])
        sent.append(1500)
        eventually(lambda: node.heard() >= sum(sent))

    check(watch(process(node), storm, warm=10), 1500, budget=64)
    director.ask("xid", gpu="1", number=79)
    director.close()
    node.wait(GPU, 0)
    eventually(lambda: node.logged().count("times=") >= 3)
    assert set(node.health(GPU).values()) == {"Unhealthy"}
    assert node.logged().count("\n") < 100


@pytest.mark.endurance
def test_gpus_that_are_lost_and_drivers_that_are_loaded_again_and_again(
    make_node: MakeNode,
) -> None:
    node = make_node(2)
    node.serve(2, "", "--recovery-period", "0.01")

    def once() -> None:
        node.sim.ctl("lose", gpu="1")
        node.wait(GPU, 1)
        node.sim.ctl("restore", gpu="1")
        node.wait(GPU, 2)
        node.sim.ctl("unload")
        node.wait(GPU, 0)
        node.sim.ctl("load", version="550.163.01", flavour="open")
        node.wait(GPU, 2)

    check(watch(process(node), once), 1, budget=LOADED)


@pytest.mark.endurance
def test_a_configuration_that_changes_again_and_again(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)

    def changes() -> None:
        for number in range(1, 13):
            bad = number % 10 == 5
            text = "flags: {none: 1}" if bad else SHARED.replace("100", str(number % 7 + 1))
            node.config.write_text(text)
            node.signal(signal.SIGHUP)
            if number % 6 == 0:
                digest = hashlib.sha256(text.encode()).hexdigest()
                eventually(lambda digest=digest: node.status()["config_sha256"] == digest)
                node.wait(GPU, 2 * (number % 7 + 1))

    check(watch(process(node), changes), 12, budget=2048)
    assert node.status()["config_problem"] is None
    assert node.admit("one", gpu=1)["envs"]


def test_too_few_descriptors_are_said_and_survived(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    node.registered()
    pid = process(node)
    calm = cost(node)
    few = held(pid).descriptors + 10
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, few))
    guests = []
    for _one in range(40):
        guest = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        guest.setblocking(False)
        with contextlib.suppress(OSError):
            guest.connect(str(node.plugins / "nvidia-gpu.sock"))
        guests.append(guest)
    eventually(lambda: held(pid).descriptors >= few)
    node.sim.ctl("xid", gpu="1", number=79)  # a fault has to be written down
    eventually(lambda: "Too many open files" in node.logged())
    assert cost(node) < 5 * calm + 0.5  # it does not try again and again
    assert node.logged().count("Too many open files") < 20
    for guest in guests:
        guest.close()
    eventually(lambda: held(pid).descriptors < few)
    eventually(lambda: node.problems(GPU))
    node.wait(GPU, 1)  # also where it has begun to serve anew
    assert node.admit("one", gpu=1)["envs"]
    assert node.daemon is not None
    assert node.daemon.poll() is None


def cost(node: Node, looks: int = 6) -> float:
    """Return the seconds of the processor that the daemon takes while it looks so often at the GPUs."""
    first, before = node.looks(), spent(process(node))
    eventually(lambda: node.looks() >= first + looks)
    return spent(process(node)) - before


def test_of_two_plugins_the_last_serves_and_the_other_waits(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    first, before = node.daemon, process(node)
    node.status_file = node.folder / "second/status.json"
    node.start_daemon("flags: {plugin: {deviceIDStrategy: index}}")
    node.registered()
    eventually(lambda: "another plugin serves this resource" in node.logged())
    assert node.admit("one", gpu=1)["envs"] == {"NVIDIA_VISIBLE_DEVICES": "0"}
    registered = node.logged().count("registered resource")
    unchanged(
        lambda: (node.logged().count("registered resource"), node.resources()),
        (registered, {GPU: 2}),
        lambda: node.sim.looks(before),
    )
    node.signal(signal.SIGTERM)
    assert node.ended() == 0
    node.daemon = first
    eventually(lambda: node.logged().count("registered resource") > registered)
    node.allocatable(GPU, 2)
    assert node.logged().count("waiting for it to end") == 1


def test_rubbish_on_the_socket_harms_nobody(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    for data in (b"", b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 400):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.connect(str(node.plugins / "nvidia-gpu.sock"))
            try:
                channel.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                continue
    with grpc.insecure_channel(f"unix://{node.plugins}/nvidia-gpu.sock") as channel:
        call = channel.unary_unary(rpc.ALLOCATE)
        with pytest.raises(grpc.RpcError):
            call(b"\xff\xff\xff", timeout=LIMIT)
    assert node.admit("one", gpu=2)["envs"]


def test_a_daemon_that_is_killed_and_started(make_node: MakeNode) -> None:
    node = make_node(2)
    node.serve(2)
    node.kill()
    node.wait(GPU, 0)
    node.start_daemon()
    node.wait(GPU, 2)
    assert node.admit("one", gpu=2)["envs"]


def test_a_mig_layout_that_changes_again_and_again(make_node: MakeNode) -> None:
    node = make_node(1)
    node.layout(0, "1g.10gb")
    node.start_kubelet()
    node.start_daemon("flags: {migStrategy: mixed}")
    for profiles in (["3g.40gb", "1g.10gb"], [], ["1g.10gb"] * 7):
        node.layout(0, *profiles)
    node.wait("nvidia.com/mig-1g.10gb", 7)
    eventually(
        lambda: {n: c for n, c in node.resources().items() if c} == {"nvidia.com/mig-1g.10gb": 7}
    )
    assert node.status()["state"] == "serving"
