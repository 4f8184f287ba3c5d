# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A MIG change where MPS is: the module ``gpu.node.mig`` beside ``gpu-plugin mps run``."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.model.mps.settings import Settings
from nvsim.testing import PROJECT, start

from tests.fakes.mps.mps_running import DEFAULT, STANDIN, MakeMps, Mps, living
from tests.fakes.mps.mps_sharing import ELSEWHERE
from tests.support import helper_process
from tests.support.waiting import eventually

Change = Callable[..., dict[str, Any]]
LAYOUT = {"1g.5gb": 2, "3g.20gb": 1}


@pytest.fixture
def change(tmp_path: Path) -> Change:
    """Return a function that makes a MIG layout on GPU 0 of a node with these managers."""
    if os.geteuid() != 0:
        pytest.skip("mounts can be made by root only")

    def run(mps: Mps, *devices: str, check: bool = False, **more: Any) -> dict[str, Any]:
        folder = tmp_path / "mps"
        folder.mkdir(exist_ok=True)
        for device in devices:
            text = Settings(2, root=str(mps.root)).to_json()
            (folder / f"{device}.settings.json").write_text(text)
        entry = {"devices": [0], "mig-enabled": True, "mig-devices": LAYOUT}
        params = {
            "config": {"version": "v1", "mig-configs": {"wanted": [entry]}},
            "boot": False,
            "_ansible_check_mode": check,
            "_ansible_remote_tmp": str(tmp_path),
            **more,
        }
        asked = tmp_path / "args.json"
        asked.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": params}))
        module = [sys.executable, "-m", "ansible_collections.gpu.node.plugins.modules.mig"]
        programs = f"{mps.program.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", ELSEWHERE, folder, *module, asked],
            env={**mps.sim.env, "PYTHONPATH": os.environ["PYTHONPATH"], "PATH": programs},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return run


class Served(Mps):
    """A machine with an MPS server on GPU 0, as the genuine one has with CUDA only."""

    def __init__(self, server: Path) -> None:
        sim = start("a100-40", 2)
        super().__init__(sim, STANDIN, STANDIN_CLIENTS=1, STANDIN_SERVER=server)
        words = ["/usr/sbin/nvidia-cuda-mps-server", "-m", "nvsim.ctl"]
        words += ["--socket", str(self.sim.socket), "hold", "0"]
        self.server = helper_process.start(
            words,
            executable=sys.executable,
            env={**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONHOME": sys.base_prefix},
            stdout=subprocess.PIPE,
            ready=helper_process.printed(),
        )
        server.write_text(str(self.server.pid))

    def told_with(self, clients: int) -> dict[str, Any]:
        """Wait until the manager tells the server with so many clients."""
        found: dict[str, Any] = eventually(
            lambda: (
                [
                    one
                    for one in self.status(self.uuid()).get("servers", ())
                    if (one["pid"], len(one["clients"])) == (self.server.pid, clients)
                ]
                and self.status(self.uuid())
            )
        )
        return found

    def stop(self) -> None:
        self.server.kill()
        super().stop()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    made = Served(tmp_path / "server")
    yield made
    made.stop()


def actions(answer: dict[str, Any]) -> list[str]:
    return [step["action"] for step in answer["steps"]]


def test_idle_server_is_ended_and_its_daemon_goes_on(served: Served, change: Change) -> None:
    uuid = served.uuid()
    served.run(uuid, "--replicas", 4, "--memory", "900M", "--no-shm")
    before = served.told_with(0)
    planned = change(served, uuid, check=True)
    assert actions(planned)[:2] == ["end_mps_server", "set_mig_mode"]
    assert living(served.server.pid)
    done = change(served, uuid)
    assert not done.get("failed"), done
    assert actions(done)[:2] == ["end_mps_server", "set_mig_mode"]
    assert len(served.sim.ctl("status")["gpus"][0]["gis"]) == 3
    assert not living(served.server.pid)
    after = served.status(uuid)
    assert (after["daemon"], after["restarts"]) == (before["daemon"], 0)
    again = change(served, uuid)
    assert (again["changed"], again["steps"]) == (False, [])


def test_server_with_clients_is_work(served: Served, change: Change) -> None:
    uuid = served.uuid()
    served.run(uuid, "--replicas", 4, "--memory", "900M", "--no-shm")
    served.ready(uuid)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{served.status(uuid)['pipe']}/server")
        served.told_with(1)
        refused = change(served, uuid)
        assert refused["failed"]
        assert f"process {served.server.pid} (/usr/sbin/nvidia-cuda-mps-server)" in refused["msg"]
        skipped = change(served, uuid, on_busy="skip")
        assert (skipped["changed"], skipped["steps"]) == (False, [])
        assert living(served.server.pid)
    served.told_with(0)
    assert change(served, uuid, on_busy="wait", wait_timeout=600)["changed"]


def test_client_that_came_meanwhile_keeps_its_server(served: Served, change: Change) -> None:
    uuid = served.uuid()
    served.run(uuid, "--replicas", 4, "--memory", "900M", "--no-shm", "--interval", 3600)
    served.told_with(0)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{served.status(uuid)['pipe']}/server")
        eventually(lambda: served.ask(uuid, f"get_client_list {served.server.pid}"))
        assert served.status(uuid)["clients"] == 0  # the manager has not asked since
        failed = change(served, uuid)
    assert failed["failed"]
    assert "it does not end, so clients came meanwhile" in failed["msg"]
    assert living(served.server.pid)
    assert served.sim.ctl("status")["gpus"][0]["mig_current"] == 0


def test_server_that_is_not_ours_is_work(served: Served, change: Change) -> None:
    refused = change(served)
    assert refused["failed"]
    assert str(served.server.pid) in refused["msg"]
    assert living(served.server.pid)


def test_daemon_without_a_server_is_not_in_the_way(make_mps: MakeMps, change: Change) -> None:
    mps = make_mps(2, product="a100-40")
    uuid = mps.uuid()
    manager = mps.run(uuid, "--replicas", 4, "--no-shm")
    daemon = mps.ready(uuid)["daemon"]
    done = change(mps, uuid)
    assert not done.get("failed"), done
    assert "end_mps_server" not in actions(done)
    assert mps.status(uuid)["daemon"] == daemon
    assert mps.end(manager) == 0
    assert mps.mode() == DEFAULT
