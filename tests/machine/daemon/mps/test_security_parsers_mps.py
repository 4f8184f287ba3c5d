# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ten thousand hostile inputs at what reads MPS: the program's answers, its clients, files of state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.driver.health import Health
from gpu_plugin.driver.memory import BOOT_ID, HealthFile
from gpu_plugin.model.mps import settings
from gpu_plugin.model.mps.paths import problem_of_root
from gpu_plugin.model.mps.settings import Bounds, parse_memory, parse_percent
from gpu_plugin.mps import protocol, state
from gpu_plugin.mps.clients import look
from gpu_plugin.mps.state import ManagerFiles
from gpu_plugin.tools import status
from gpu_plugin.tools.files import started

from tests.support.hostile import Thrown, inputs

UUID = "GPU-00000000-0000-0000-0000-000000000001"
BOUNDS = Bounds(8192, 25.0)
ANSWERS = (
    "1234\n5678\n25.0\n8G\n",
    "25.0\n",
    "8192M\n",
    "Server 12 not found\n25.0\n",
    "Invalid x\n1\n",
)
LINES = ("[2026-01-01 10:00:00.123 Control   12] NEW CLIENT 7 from user 0: Server already exists",)
STATE = {
    "version": 1,
    "device": UUID,
    "state": "ready",
    "since": "2026-01-01T00:00:00Z",
    "pid": 1,
    "began": "12",
    "daemon": 1,
    "limits": {"asked": {"memory_mib": 8192, "threads": 25.0}},
    "replicas": 4,
    "restarts": 0,
    "problem": "",
    "servers": [{"pid": 7, "clients": [8, 9]}],
    "clients": 2,
    "settings": json.loads(settings.Settings(4).to_json()),
}
FAULT = {
    "place": [UUID, None, None],
    "reason": "XID 48",
    "strikes": 1,
    "quiet_since": None,
    "over_since": 2.0,
    "action": "fatal",
}
MEMORY = {"faults": [FAULT], "away": [], "errors": {UUID: 1}, "asked": []}


@pytest.mark.attack("hostile-configuration")
def test_hostile_answers_of_the_control_program() -> None:
    def ask(told: str) -> None:
        for setting in protocol.settings(BOUNDS):
            protocol.answer(protocol.question(setting.get) + told)
            protocol.refusal(told)
        protocol.gone(told)
        answer = protocol.answer(told)
        assert len(protocol.event(told)) < 1000
        protocol.polled(told, BOUNDS)
        protocol.pids(told)
        protocol.check(next(protocol.settings(BOUNDS)), answer or "")

    Thrown(ask, NodeError).throw(inputs((*ANSWERS, *LINES), ("8G\n", "25.0\n")))


@pytest.mark.attack("hostile-configuration")
def test_hostile_clients(memory: Path) -> None:
    proc = memory / "proc/7"
    proc.mkdir(parents=True)

    def client(text: str) -> None:
        data = text.encode(errors="surrogatepass")
        (proc / "environ").write_bytes(data)
        (proc / "cgroup").write_bytes(data)
        found = look(7, proc.parent, memory)
        assert len(str(found)) < 300
        if str(found) == "7":
            raise NodeError("nothing is known of it")

    samples = (
        "A=b\0CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8192M\0CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12.5",
        "0::/kubepods.slice/kubepods-burstable-pod0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0.slice/x\n",
    )
    Thrown(client, NodeError).throw(inputs(samples))


@pytest.mark.attack("hostile-configuration")
def test_hostile_states_of_managers(memory: Path) -> None:
    path = memory / f"{UUID}.json"
    files = ManagerFiles(memory)

    def read(text: str) -> None:
        path.write_bytes(text.encode(errors="surrogatepass"))
        state.describe(state.named(state.load(memory)))
        observed = files.look(UUID, str(memory))
        observed.suits(settings.Settings(4))
        if observed.state is None:
            raise NodeError("no state")

    Thrown(read, NodeError).throw(inputs((json.dumps(STATE), json.dumps(STATE, indent=1))))


@pytest.mark.long
@pytest.mark.attack("hostile-configuration")
def test_hostile_state_of_the_manager(memory: Path) -> None:
    path = memory / state.MANAGER
    files = ManagerFiles(memory)

    def read(text: str) -> None:
        path.write_bytes(text.encode(errors="surrogatepass"))
        files.manager()
        files.look(UUID, str(memory))
        for root in state.roots(memory):
            assert not problem_of_root(str(root))
        if state.read_manager(path) is None:
            raise NodeError("no state")

    told = {"version": 1, "pid": 1, "began": "12", "devices": {UUID: "/run/x"}, "release": ""}
    Thrown(read, NodeError).throw(inputs((json.dumps(told), json.dumps(told, indent=1))))


@pytest.mark.long
@pytest.mark.attack("hostile-configuration")
def test_hostile_state_of_the_daemon(memory: Path) -> None:
    path = memory / "status.json"

    def read(text: str) -> None:
        path.write_bytes(text.encode(errors="surrogatepass"))
        status.mig_boot(path)
        if status.load(path) is None:
            raise NodeError("no state")

    Thrown(read, NodeError).throw(
        inputs((json.dumps({"pid": 1, "began": started(1), "state": "serving"}),))
    )


@pytest.mark.long
@pytest.mark.attack("hostile-configuration")
def test_hostile_memory_of_health(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = memory / "health.json"
    (memory / BOOT_ID).parent.mkdir(parents=True)
    (memory / BOOT_ID).write_text("this\n")
    file = HealthFile(path, memory)

    def read(text: str) -> None:
        path.write_bytes(text.encode(errors="surrogatepass"))
        file.read(Health(0.3), ["550"], 1)
        if told := capsys.readouterr().err:
            raise NodeError(told)

    data = {"version": 1, "boot": "this", "load": ["550"], "health": MEMORY}
    Thrown(read, NodeError).throw(inputs((json.dumps(data), json.dumps(data, indent=2))))


@pytest.mark.attack("hostile-configuration")
def test_hostile_settings_of_managers() -> None:
    asked = settings.Settings(4, parse_memory("8GiB"), parse_percent("threads", "12.5"))
    Thrown(settings.from_json, NodeError).throw(inputs((asked.to_json(),)))
