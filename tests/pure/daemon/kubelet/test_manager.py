# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Registrations that fail, and sockets that vanish."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from gpu_plugin.kubelet.listener import identity
from gpu_plugin.kubelet.manager import Manager
from gpu_plugin.kubelet.server import Published
from gpu_plugin.model.inventory import Resources
from gpu_plugin.proto.v1beta1 import api_pb2, rpc

from tests.fakes.daemon.gpu_builders import device, snapshot

GPU = "nvidia.com/gpu"


class Registrar:
    """A kubelet that does nothing but take registrations, or refuse them."""

    def __init__(self, folder: Path) -> None:
        self.heard: list[api_pb2.RegisterRequest] = []
        self.refuse = False
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(
            self.register, api_pb2.RegisterRequest.FromString, api_pb2.Empty.SerializeToString
        )
        methods = {"Register": handler}
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(rpc.REGISTRATION, methods),)
        )
        self.server.add_insecure_port(f"unix://{folder}/kubelet.sock")
        self.server.start()

    def register(
        self, request: api_pb2.RegisterRequest, context: grpc.ServicerContext
    ) -> api_pb2.Empty:
        self.heard.append(request)
        if self.refuse:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not today")
        return api_pb2.Empty()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Registrar]:
    made = Registrar(tmp_path)
    yield made
    made.server.stop(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def manager(tmp_path: Path, clock: Clock) -> Iterator[Manager]:
    made = Manager(tmp_path / "kubelet.sock", Published(), clock)
    yield made
    made.stop()


def publish(manager: Manager, resources: Resources) -> None:
    manager._published.put(snapshot(resources))
    manager.tick()


def test_each_resource_is_registered_with_its_socket(kubelet: Registrar, manager: Manager) -> None:
    publish(manager, {GPU: (device(0),), "nvidia.com/mig-1g.10gb": (device(1),)})
    told = [(one.version, one.endpoint, one.resource_name) for one in kubelet.heard]
    assert told == [
        ("v1beta1", "nvidia-gpu.sock", GPU),
        ("v1beta1", "nvidia-mig-1g.10gb.sock", "nvidia.com/mig-1g.10gb"),
    ]
    assert all(one.options.get_preferred_allocation_available for one in kubelet.heard)
    manager.tick()
    assert len(kubelet.heard) == 2
    assert all(manager.registered().values())


def test_a_refusal_is_retried_with_pauses(
    kubelet: Registrar, manager: Manager, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    kubelet.refuse = True
    publish(manager, {GPU: (device(0),)})
    manager.tick()
    assert len(kubelet.heard) == 1
    for clock.now, count in ((0.6, 2), (1.5, 2), (1.7, 3)):
        manager.tick()
        assert len(kubelet.heard) == count
    assert manager.registered() == {GPU: False}
    assert "not today" in (manager.problem() or "")
    kubelet.refuse = False
    clock.now = 60
    manager.tick()
    assert manager.registered() == {GPU: True}
    assert manager.problem() is None
    assert capsys.readouterr().err.count("not today") == 1


def test_a_kubelet_that_does_not_listen_is_told_again(
    kubelet: Registrar, manager: Manager, clock: Clock
) -> None:
    publish(manager, {GPU: (device(0),)})
    clock.now = 9
    manager.tick()
    assert len(kubelet.heard) == 1
    clock.now = 11
    manager.tick()
    assert len(kubelet.heard) == 2


def test_a_removed_socket_comes_back(
    tmp_path: Path, kubelet: Registrar, manager: Manager, clock: Clock
) -> None:
    publish(manager, {GPU: (device(0),)})
    socket = tmp_path / "nvidia-gpu.sock"
    socket.unlink()
    manager.tick()
    assert socket.is_socket()
    assert len(kubelet.heard) == 2


def test_without_a_kubelet_nothing_breaks(tmp_path: Path, clock: Clock) -> None:
    manager = Manager(tmp_path / "none" / "kubelet.sock", Published(), clock)
    publish(manager, {GPU: (device(0),)})
    assert manager.registered() == {GPU: False}
    manager.stop()


MIG = "nvidia.com/mig-1g.10gb"


def told(kubelet: Registrar) -> list[str]:
    return [one.resource_name for one in kubelet.heard]


def test_a_server_that_fails_is_made_anew_and_the_others_stay(
    tmp_path: Path, kubelet: Registrar, manager: Manager
) -> None:
    publish(manager, {GPU: (device(0),), MIG: (device(1),)})
    before = identity(tmp_path / "nvidia-mig-1g.10gb.sock")
    (tmp_path / "nvidia-gpu.sock").unlink()
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(tmp_path / "nvidia-gpu.sock"))  # which has a name, and nobody listens
    manager.tick()
    assert manager.registered() == {GPU: True, MIG: True}
    assert told(kubelet) == [GPU, MIG, GPU]
    assert identity(tmp_path / "nvidia-mig-1g.10gb.sock") == before
    with grpc.insecure_channel(f"unix://{tmp_path}/nvidia-gpu.sock") as channel:
        grpc.channel_ready_future(channel).result(5)


def test_a_resource_that_can_not_be_served_keeps_no_other_from_it(
    tmp_path: Path,
    kubelet: Registrar,
    manager: Manager,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "nvidia-gpu.sock/in-the-way").mkdir(parents=True)
    publish(manager, {GPU: (device(0),), MIG: (device(1),)})
    for clock.now in (0.1, 0.6, 1.2, 2.0):
        manager.tick()
    assert manager.registered() == {GPU: False, MIG: True}
    said = capsys.readouterr().err.splitlines()
    again = [line for line in said if "not registered, trying again" in line]
    assert len([line for line in again if f"resource={GPU}" in line]) == 1
    (tmp_path / "nvidia-gpu.sock/in-the-way").rmdir()
    (tmp_path / "nvidia-gpu.sock").rmdir()
    clock.now = 60
    manager.tick()
    assert manager.registered() == {GPU: True, MIG: True}
    assert told(kubelet)[:2] == [MIG, GPU]


def test_a_server_that_no_kubelet_listens_to_is_made_anew(
    tmp_path: Path, kubelet: Registrar, manager: Manager, clock: Clock
) -> None:
    publish(manager, {GPU: (device(0),)})
    first = identity(tmp_path / "nvidia-gpu.sock")
    clock.now = 11
    manager.tick()
    assert identity(tmp_path / "nvidia-gpu.sock") == first
    clock.now = 22
    manager.tick()
    assert identity(tmp_path / "nvidia-gpu.sock") != first
    assert told(kubelet) == [GPU] * 3


def test_of_two_plugins_the_one_that_came_last_serves(
    tmp_path: Path, kubelet: Registrar, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (Manager(tmp_path / "kubelet.sock", Published(), clock) for _one in range(2))
    publish(old, {GPU: (device(0),)})
    publish(new, {GPU: (device(0),)})
    for clock.now in range(1, 9):
        old.tick()
        new.tick()
    assert (old.registered(), new.registered()) == ({GPU: False}, {GPU: True})
    assert told(kubelet) == [GPU, GPU]
    said = capsys.readouterr().err
    assert said.count("another plugin serves this resource, waiting for it to end") == 1
    old.stop()  # which leaves the other's socket where it is
    assert (tmp_path / "nvidia-gpu.sock").is_socket()
    with grpc.insecure_channel(f"unix://{tmp_path}/nvidia-gpu.sock") as channel:
        grpc.channel_ready_future(channel).result(5)
    new.stop()


@pytest.mark.parametrize("leaves_its_socket", [True, False])
def test_the_one_that_gave_way_serves_again_when_the_other_ends(
    tmp_path: Path, kubelet: Registrar, manager: Manager, clock: Clock, leaves_its_socket: bool
) -> None:
    publish(manager, {GPU: (device(0),)})
    path = tmp_path / "nvidia-gpu.sock"
    path.unlink()
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(path))
    other.listen()
    clock.now = 1
    manager.tick()
    assert manager.registered() == {GPU: False}
    other.close()
    if not leaves_its_socket:
        path.unlink()
    clock.now = 7
    manager.tick()
    assert manager.registered() == {GPU: True}
    assert told(kubelet) == [GPU, GPU]


def test_no_two_servers_bind_one_path(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that failed removes what it bound when it ends, at some time after the next began."""
    bound: list[str] = []
    rename = Path.replace

    def replace(self: Path, target: Path) -> Path:
        bound.append(self.name)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    (tmp_path / "nvidia-gpu.sock/in-the-way").mkdir(parents=True)
    publish(manager, {GPU: (device(0),)})
    publish(manager, {MIG: (device(1),)})
    assert len(bound) == 2
    assert len(set(bound)) == 2
