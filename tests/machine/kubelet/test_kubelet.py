# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The stand-in kubelet with a plugin that does as it is told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from gpu_plugin.proto.v1beta1 import api_pb2, rpc
from standin_kubelet import control
from standin_kubelet.control import Control
from standin_kubelet.devices import AdmissionError, KubeletError
from standin_kubelet.kubelet import Kubelet

from tests.support import helper_process
from tests.support.paths import FAKES
from tests.support.waiting import LIMIT, eventually

RESOURCE = "nvidia.com/gpu"


def bytes_of(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


class Plugin:
    """A device plugin with devices a, b, ... that prefers the last ones."""

    def __init__(self, folder: Path, count: int = 4, name: str = "fake.sock") -> None:
        self.folder, self.name = folder, name
        self.health = {chr(97 + at): "Healthy" for at in range(count)}
        self.changed, self.stopped = threading.Event(), False
        self.asked: list[list[str]] = []
        self.refuse = ""
        self.prefers: list[str] | None = None

    def start(self) -> None:
        methods: dict[str, tuple[Any, Any]] = {
            "GetDevicePluginOptions": (self._options, api_pb2.Empty),
            "GetPreferredAllocation": (self._prefer, api_pb2.PreferredAllocationRequest),
            "Allocate": (self._allocate, api_pb2.AllocateRequest),
        }
        handlers: dict[str, Any] = {
            key: grpc.unary_unary_rpc_method_handler(
                function, request_deserializer=kind.FromString, response_serializer=bytes_of
            )
            for key, (function, kind) in methods.items()
        }
        handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(
            self._watch, request_deserializer=api_pb2.Empty.FromString, response_serializer=bytes_of
        )
        self.server = grpc.server(ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(rpc.DEVICE_PLUGIN, handlers),)
        )
        self.server.add_insecure_port(f"unix://{self.folder / self.name}")
        self.server.start()

    def register(self, resource: str = RESOURCE, version: str = "v1beta1") -> None:
        request = api_pb2.RegisterRequest(
            version=version, endpoint=self.name, resource_name=resource
        )
        with grpc.insecure_channel(f"unix://{self.folder}/kubelet.sock") as channel:
            call = channel.unary_unary(
                rpc.REGISTER,
                request_serializer=bytes_of,
                response_deserializer=api_pb2.Empty.FromString,
            )
            call(request, timeout=LIMIT)

    def set(self, device: str, health: str) -> None:
        self.health[device] = health
        self.changed.set()

    def stop(self) -> None:
        self.stopped = True
        self.changed.set()
        self.server.stop(0).wait()

    def _options(self, _request: Any, _context: Any) -> Any:
        return api_pb2.DevicePluginOptions(get_preferred_allocation_available=True)

    def _watch(self, _request: Any, context: Any) -> Iterator[Any]:
        while context.is_active() and not self.stopped:
            yield api_pb2.ListAndWatchResponse(
                devices=[
                    api_pb2.Device(ID=one, health=health) for one, health in self.health.items()
                ]
            )
            self.changed.wait(LIMIT)
            self.changed.clear()

    def _prefer(self, request: Any, _context: Any) -> Any:
        one = request.container_requests[0]
        wanted = sorted(one.available_deviceIDs)[-one.allocation_size :]
        if self.prefers is not None:
            wanted = self.prefers
        return api_pb2.PreferredAllocationResponse(
            container_responses=[api_pb2.ContainerPreferredAllocationResponse(deviceIDs=wanted)]
        )

    def _allocate(self, request: Any, context: Any) -> Any:
        ids = list(request.container_requests[0].devices_ids)
        self.asked.append(ids)
        if self.refuse:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse)
        return api_pb2.AllocateResponse(
            container_responses=[
                api_pb2.ContainerAllocateResponse(
                    envs={"DEVICES": ",".join(ids)},
                    devices=[
                        api_pb2.DeviceSpec(
                            host_path="/dev/x", container_path="/dev/y", permissions="rw"
                        )
                    ],
                    cdi_devices=[api_pb2.CDIDevice(name=f"vendor/class={one}") for one in ids],
                )
            ]
        )


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    found = Kubelet(tmp_path / "plugins")
    found.start()
    yield found
    found.stop()


@pytest.fixture
def plugin(kubelet: Kubelet, tmp_path: Path) -> Iterator[Plugin]:
    found = Plugin(tmp_path / "plugins")
    found.start()
    found.register()
    kubelet.wait(RESOURCE, 4, LIMIT)
    yield found
    found.stop()


def test_admitted_pod_gets_the_preferred_devices(kubelet: Kubelet, plugin: Plugin) -> None:
    answer = kubelet.admit("p", {RESOURCE: 2})
    assert answer["devices"] == {RESOURCE: ["c", "d"]}
    assert answer["envs"] == {"DEVICES": "c,d"}
    assert answer["device_nodes"] == [
        {"host": "/dev/x", "container": "/dev/y", "permissions": "rw"}
    ]
    assert answer["cdi_devices"] == ["vendor/class=c", "vendor/class=d"]
    assert kubelet.ledger.describe()[RESOURCE]["allocated"] == 2
    kubelet.ledger.take_back("p")
    assert kubelet.ledger.describe()[RESOURCE]["allocated"] == 0


@pytest.mark.parametrize(
    ("prefers", "given"),
    [(["b", "b"], ["b", "a"]), (["z", "d"], ["d", "a"]), ([], ["a", "b"])],
    ids=["twice the same", "a device that is not there", "nothing"],
)
def test_an_odd_preference_is_filled_up(
    kubelet: Kubelet, plugin: Plugin, prefers: list[str], given: list[str]
) -> None:
    plugin.prefers = prefers
    assert kubelet.admit("p", {RESOURCE: 2})["devices"] == {RESOURCE: given}


def test_a_pod_that_is_not_there_cannot_be_released(kubelet: Kubelet) -> None:
    with pytest.raises(KubeletError, match="pod p is not admitted"):
        kubelet.ledger.take_back("p")


def test_a_plugin_that_does_not_answer_is_left_out(
    kubelet: Kubelet, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("standin_kubelet.kubelet.SECONDS", 0.2)
    Plugin(tmp_path / "plugins", name="none.sock").register()
    said: list[str] = []

    def told() -> bool:
        said.append(capfd.readouterr().err)
        return "plugin none.sock of nvidia.com/gpu is left out" in "".join(said)

    eventually(told)
    assert kubelet.ledger.describe() == {}


def test_what_cannot_be_given_is_refused(kubelet: Kubelet, plugin: Plugin) -> None:
    with pytest.raises(AdmissionError, match="Requested: 5, Available: 4"):
        kubelet.admit("p", {RESOURCE: 5})
    with pytest.raises(AdmissionError, match=r"no resource nvidia\.com/tpu"):
        kubelet.admit("p", {"nvidia.com/tpu": 1})
    plugin.refuse = "not today"
    with pytest.raises(AdmissionError, match="not today"):
        kubelet.admit("p", {RESOURCE: 1})
    plugin.refuse = ""
    kubelet.admit("p", {RESOURCE: 1})
    with pytest.raises(AdmissionError, match="already admitted"):
        kubelet.admit("p", {RESOURCE: 1})


def test_unhealthy_devices_are_not_given(kubelet: Kubelet, plugin: Plugin) -> None:
    plugin.set("d", "Unhealthy")
    found = kubelet.wait(RESOURCE, 3, LIMIT)[RESOURCE]
    assert (found["capacity"], found["allocatable"]) == (4, 3)
    assert kubelet.admit("p", {RESOURCE: 1})["devices"] == {RESOURCE: ["c"]}


def test_plugin_that_is_gone_leaves_nothing_allocatable(kubelet: Kubelet, plugin: Plugin) -> None:
    plugin.stop()
    assert kubelet.wait(RESOURCE, 0, LIMIT)[RESOURCE]["capacity"] == 4
    with pytest.raises(AdmissionError, match="Available: 0"):
        kubelet.admit("p", {RESOURCE: 1})


def test_restart_forgets_plugins_and_keeps_pods(
    kubelet: Kubelet, plugin: Plugin, tmp_path: Path
) -> None:
    kubelet.admit("p", {RESOURCE: 1})
    (tmp_path / "plugins/left-over").touch()
    kubelet.restart()
    assert not (tmp_path / "plugins/left-over").exists()
    assert kubelet.ledger.describe() == {}
    assert not (tmp_path / "plugins/fake.sock").exists()
    plugin.stop()
    second = Plugin(tmp_path / "plugins", name="second.sock")
    second.start()
    second.register()
    kubelet.wait(RESOURCE, 4, LIMIT)
    assert kubelet.ledger.describe()[RESOURCE]["devices"]["d"]["pod"] == "p"
    assert kubelet.admit("q", {RESOURCE: 1})["devices"] == {RESOURCE: ["c"]}
    assert Kubelet(tmp_path / "plugins").ledger.pods.keys() == {"p", "q"}
    second.stop()


def test_later_registration_takes_over(kubelet: Kubelet, plugin: Plugin, tmp_path: Path) -> None:
    second = Plugin(tmp_path / "plugins", count=2, name="second.sock")
    second.start()
    second.register()
    kubelet.wait(RESOURCE, 2, LIMIT)
    plugin.stop()
    assert kubelet.admit("p", {RESOURCE: 2})["devices"] == {RESOURCE: ["a", "b"]}
    assert (plugin.asked, second.asked) == ([], [["a", "b"]])
    assert kubelet.ledger.describe()[RESOURCE]["allocatable"] == 2
    second.stop()


@pytest.mark.parametrize(
    ("resource", "version", "words"),
    [("gpu", "v1beta1", "invalid resource name"), (RESOURCE, "v1alpha", "unsupported version")],
)
def test_registrations_of_bad_names_and_versions_are_refused(
    kubelet: Kubelet, tmp_path: Path, resource: str, version: str, words: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        Plugin(tmp_path / "plugins").register(resource, version)
    assert words in str(caught.value)


def test_pods_at_once_never_share_a_device(kubelet: Kubelet, plugin: Plugin) -> None:
    def admit(number: int) -> list[str]:
        try:
            found: list[str] = kubelet.admit(f"p{number}", {RESOURCE: 1})["devices"][RESOURCE]
        except AdmissionError:
            return []
        return found

    with ThreadPoolExecutor(8) as pool:
        given = sorted(one for ids in pool.map(admit, range(8)) for one in ids)
    assert given == ["a", "b", "c", "d"]


def test_launcher_says_when_it_is_ready_and_prints_devices(tmp_path: Path) -> None:
    launcher = str(FAKES / "kubelet/standin-kubelet")
    folder, control_path = tmp_path / "plugins", str(tmp_path / "control.sock")
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(tmp_path / "notify"))
    notify.settimeout(LIMIT)
    env = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "PYTHON": sys.executable}
    words = [launcher, "serve", "--dir", str(folder), "--control", control_path]
    serve = helper_process.start(words, env=env, ready=helper_process.executed)
    try:
        assert notify.recv(64) == b"READY=1"
        plugin = Plugin(folder, count=1)
        plugin.start()
        plugin.register()

        def ask(*verb: str) -> str:
            done = [launcher, *verb, "--control", control_path]
            return subprocess.run(done, env=env, check=True, capture_output=True, text=True).stdout

        ask("wait", f"{RESOURCE}=1")
        ask("admit", "p", "--request", f"{RESOURCE}=1")
        row = ask("resources").splitlines()[-1].split()
        assert row == [RESOURCE, "a", "Healthy", "-", "p"]
        assert json.loads(ask("resources", "--json")) == {
            RESOURCE: {
                "capacity": 1,
                "allocatable": 1,
                "allocated": 1,
                "devices": {"a": {"health": "Healthy", "numa": [], "pod": "p"}},
            }
        }
        plugin.stop()
    finally:
        serve.terminate()
        assert serve.wait(LIMIT) == 0
        notify.close()


def test_command_line_serves_waits_and_admits(tmp_path: Path) -> None:
    folder, path = tmp_path / "plugins", tmp_path / "control.sock"
    words = [sys.executable, "-m", "standin_kubelet"]
    serve = helper_process.start(
        [*words, "serve", "--dir", folder, "--control", path], ready=helper_process.executed
    )
    try:
        eventually(path.exists)
        assert path.stat().st_mode & 0o077 == 0
        assert (folder / "kubelet.sock").stat().st_mode & 0o077 == 0
        plugin = Plugin(folder)
        plugin.start()
        plugin.register()
        ask = [*words, "wait", f"{RESOURCE}=4", "--control", str(path)]
        assert (
            "nvidia.com/gpu"
            in subprocess.run(ask, check=True, capture_output=True, text=True).stdout
        )
        assert control.ask(path, verb="admit", pod="p", requests={RESOURCE: 1})["pod"] == "p"
        full = [*words, "admit", "q", "--request", f"{RESOURCE}=9", "--control", str(path)]
        done = subprocess.run(full, check=False, capture_output=True, text=True)
        assert done.returncode == 1
        assert "UnexpectedAdmissionError" in done.stderr
        plugin.stop()
    finally:
        serve.terminate()
        assert serve.wait(LIMIT) == 0


def test_the_control_socket_has_its_name_once_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, named = tmp_path / "control.sock", []

    def activate(self: Control) -> None:
        named.append(path.exists())
        self.socket.listen()

    monkeypatch.setattr(Control, "server_activate", activate)
    with Control(path, kubelet=None):  # type: ignore[arg-type]
        assert named == [False]
        assert path.is_socket()
