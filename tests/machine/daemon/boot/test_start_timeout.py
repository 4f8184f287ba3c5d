# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that does not answer, or is slow, keeps the kubelet waiting for a while only; the work goes on behind it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin._shared._cdi import boot as cdi_boot
from gpu_plugin._shared._cdi.boot import Options
from nvsim.testing import VERSION, Sim, start

from tests.support.waiting import LIMIT

if TYPE_CHECKING:
    from tests.machine.daemon.boot.conftest import Commands, Process

PATIENCE = 0.3
LIB = "usr/lib/x86_64-linux-gnu"
Begin = Callable[..., "Process"]


@pytest.fixture
def sim() -> Iterator[Sim]:
    with start("a100-40", 1) as made:
        file = made.root / LIB / f"libcuda.so.{VERSION}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        yield made


@pytest.fixture
def manager(sim: Sim) -> Iterator[socket.socket]:
    """Return where systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(sim.folder / "n.sock"))
        made.settimeout(LIMIT)
        yield made


@pytest.fixture
def begin(sim: Sim, commands: Commands, tmp_path: Path) -> Begin:
    """Return a function that starts what one of the services does."""

    def run(name: str, wait: float = LIMIT, patience: float = PATIENCE) -> Process:
        if name == "mig":
            layout = {"devices": "all", "mig-enabled": True, "mig-devices": {"3g.20gb": 2}}
            text = json.dumps({"config": [layout], "selected": ""})
            more = ["--status", tmp_path / "status.json", "--pod-resources", "/none"]
        else:
            options = Options(str(tmp_path / "nvidia.yaml"), "never", (), str(sim.root))
            text, more = cdi_boot.dump(options), []
        config = tmp_path / f"{name}.json"
        config.write_text(text)
        words = [name, "--config", config, "--wait", wait, "--lock", tmp_path / "lock", *more]
        env = {"NOTIFY_SOCKET": str(sim.folder / "n.sock")}
        env["PATH"] = f"{tmp_path}:{sim.env['PATH']}"
        return commands.begin(sim, *words, "--patience", patience, **env)

    return run


@pytest.mark.parametrize("name", ["mig", "cdi"])
def test_driver_that_is_not_there_is_not_waited_for(
    name: str, sim: Sim, manager: socket.socket, begin: Begin, commands: Commands
) -> None:
    sim.ctl("unload")
    service = begin(name, wait=1)
    assert manager.recv(100) == b"READY=1"
    status, told = commands.end(service)
    assert status == 1
    assert "not waited for any longer" in told


def test_driver_that_hangs_is_not_waited_for_and_what_it_is_asked_for_is_done_all_the_same(
    sim: Sim, manager: socket.socket, begin: Begin, commands: Commands, tmp_path: Path
) -> None:
    for name in ("mig", "cdi"):
        sim.ctl("hang", function="*")
        service = begin(name)
        assert manager.recv(100) == b"READY=1"
        assert service.poll() is None, "it goes on, since the driver may only be slow"
        sim.ctl("clear-faults")
        assert commands.end(service)[0] == 0
        assert manager.recv(100) == b"READY=1"  # once more, at the end
    names = {one["name"] for one in json.loads((tmp_path / "nvidia.yaml").read_text())["devices"]}
    assert {"0:0", "0:1"} < names


# What systemd 252 says of a service that it is starting and of one that is not there.
STARTING = """#!/bin/sh
[ -e {0}/settled ] && exit 0
[ "$2" != nvidia-persistenced.service ] || echo Job=42
"""


def test_services_of_nvidia_are_waited_for_and_the_kubelet_is_not(
    sim: Sim, manager: socket.socket, begin: Begin, commands: Commands, tmp_path: Path
) -> None:
    (tmp_path / "systemctl").write_text(STARTING.format(tmp_path))
    (tmp_path / "systemctl").chmod(0o755)
    service = begin("mig")
    assert manager.recv(100) == b"READY=1"
    assert service.poll() is None
    assert not sim.ctl("status")["gpus"][0]["mig_devices"]
    (tmp_path / "settled").write_text("")
    assert commands.end(service)[0] == 0
    assert len(sim.ctl("status")["gpus"][0]["mig_devices"]) == 2


def test_service_of_nvidia_that_never_starts_is_not_waited_for_for_ever(
    sim: Sim, manager: socket.socket, begin: Begin, commands: Commands, tmp_path: Path
) -> None:
    (tmp_path / "systemctl").write_text(STARTING.format(tmp_path))
    (tmp_path / "systemctl").chmod(0o755)
    _status, told = commands.end(begin("mig", wait=1))
    assert "not waited for any longer services=nvidia-persistenced.service" in told
    assert len(sim.ctl("status")["gpus"][0]["mig_devices"]) == 2


def test_what_is_done_before_is_told_at_the_end(
    sim: Sim, manager: socket.socket, begin: Begin, commands: Commands
) -> None:
    """Without it systemd takes a service that ends for one that failed."""
    for name in ("mig", "cdi"):
        service = begin(name, patience=LIMIT)
        assert commands.end(service)[0] == 0
        assert manager.recv(100) == b"READY=1"


def test_layout_that_fails_is_not_told_as_done(
    sim: Sim, manager: socket.socket, begin: Begin, commands: Commands
) -> None:
    sim.ctl("fault", gpu="0", function="nvmlDeviceSetMigMode", code=999, times=9)
    service = begin("mig", patience=LIMIT)
    assert commands.end(service)[0] == 1
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(100)
