# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A pod's probes, by the file that the daemon keeps."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin.report.probes import STUCK

from tests.support.paths import DAEMON_SOURCES
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

from tests.fakes.daemon import scraping


def probe(node: Node, *arguments: str) -> tuple[int, str]:
    """Return the command's status and what it says."""
    command = [sys.executable, "-m", "gpu_plugin", "probe", "--status-file", str(node.status_file)]
    environment = {**os.environ, "PYTHONPATH": str(DAEMON_SOURCES)}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    return done.returncode, done.stdout.strip()


def make_old(path: Path) -> None:
    """Let a file be written longer ago than a loop that goes round lets it become."""
    long_ago = path.stat().st_mtime - STUCK - 5
    os.utime(path, (long_ago, long_ago))


def test_it_tells_life_and_readiness(make_node: MakeNode) -> None:
    node = make_node(1)
    status, words = probe(node)
    assert (status, "has not started" in words) == (1, True)
    node.start_daemon("")
    eventually(lambda: probe(node) == (0, "ok"))
    assert probe(node, "--ready") == (1, "not registered with the kubelet: nvidia.com/gpu")
    node.start_kubelet()
    eventually(lambda: probe(node, "--ready") == (0, "ok"))
    node.signal(signal.SIGKILL)
    node.ended()
    status, words = probe(node)
    assert (status, "does not run" in words) == (1, True)


def test_it_tells_a_loop_that_is_stuck(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_daemon("")
    eventually(lambda: probe(node) == (0, "ok"))
    make_old(node.status_file)
    eventually(lambda: probe(node) == (0, "ok"))  # the loop says again that it goes round
    node.signal(signal.SIGSTOP)
    assert node.daemon is not None
    stat = Path(f"/proc/{node.daemon.pid}/stat")
    eventually(lambda: stat.read_text().rpartition(")")[2].split()[0], "T")
    make_old(node.status_file)
    status, words = probe(node)
    assert status == 1
    assert "the main loop has not gone round for " in words
    node.signal(signal.SIGCONT)
    eventually(lambda: probe(node) == (0, "ok"))


def test_it_loads_neither_configuration_nor_driver_nor_network(tmp_path: Path) -> None:
    words = ["probe", "--status-file", str(tmp_path / "status.json")]
    code = f"import sys; from gpu_plugin import cli; cli.main({words}); print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(DAEMON_SOURCES)}
    command = [sys.executable, "-c", code]
    loaded = subprocess.check_output(command, text=True, env=environment).split()
    heavy = ("yaml", "http", "ssl", "pynvml", "grpc", "gpu_plugin.config", "gpu_plugin.driver")
    assert [one for one in loaded if one.startswith(heavy)] == []


@pytest.mark.attack("silent-metrics-client")
def test_probes_of_a_pod_under_attack(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    metrics = scraping.Metrics()
    node.start_daemon("", "--metrics-address", metrics.address)
    eventually(lambda: metrics.get("/readyz")[0] == 200)
    host, port = metrics.address.split(":")
    with contextlib.ExitStack() as stack:
        for _number in range(50):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex((host, int(port)))
        for arguments in ((), ("--ready",)):
            assert probe(node, *arguments) == (0, "ok")
        assert metrics.get("/healthz") == (200, "ok\n")
        assert metrics.get("/metrics")[0] == 200
