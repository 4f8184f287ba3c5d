# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Metrics and health over HTTP: each metric follows its fact."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import socket
import subprocess
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from gpu_plugin import __version__
from gpu_plugin.model.mps.paths import Names
from gpu_plugin.model.mps.settings import Shares
from gpu_plugin.mps.state import READY, Report
from gpu_plugin.observer import Observer
from gpu_plugin.report.pages import Families

from tests.support.growth import held
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node
    from tests.fakes.daemon.scraping import Metrics

from tests.fakes.daemon import running, scraping

GPU = "nvidia.com/gpu"
UUID = "GPU-11111111-2222-3333-4444-555555555555"


@pytest.fixture
def metrics() -> Metrics:
    return scraping.Metrics()


def start(node: Node, metrics: Metrics, config: str = "", *flags: object) -> None:
    node.start_daemon(config, "--metrics-address", metrics.address, *map(str, flags))
    eventually(lambda: metrics.get("/readyz")[0])


def becomes(metrics: Metrics, wanted: float, name: str, **labels: str) -> None:
    """Wait until a metric has this value."""
    eventually(lambda: metrics.value(f"gpu_plugin_{name}", **labels) == wanted)


# --- on a node ---


def test_each_metric_follows_its_fact(make_node: MakeNode, metrics: Metrics) -> None:
    node = make_node(2)
    node.start_kubelet()
    states = node.folder / "mps"
    states.mkdir()
    start(node, metrics, "", "--mps-root", states)
    devices = list(node.wait(GPU, 2)["devices"])

    becomes(metrics, 1, "build_info", version=__version__)
    becomes(metrics, 1, "driver_info", version="550.163.01")
    becomes(metrics, 1, "driver_available")
    becomes(metrics, 1, "config_info", sha256=hashlib.sha256(b"").hexdigest())
    becomes(metrics, 1, "registered", resource=GPU)
    becomes(metrics, 1, "registrations_total", resource=GPU, result="accepted")
    becomes(metrics, 1, "reenumerations_total", resource=GPU)
    becomes(metrics, 2, "devices", resource=GPU, health="healthy")

    node.admit("one", gpu=1)
    becomes(metrics, 1, "allocations_total", resource=GPU)
    for call in ("Allocate", "GetPreferredAllocation"):
        becomes(metrics, 1, "call_duration_seconds_count", resource=GPU, call=call)
        assert 0 < (metrics.value("gpu_plugin_call_duration_seconds_sum", call=call) or 0) < 5

    node.sim.ctl("xid", gpu="1", number=48)
    becomes(metrics, 1, "xids_total", gpu=devices[1], xid="48", action="fatal")
    becomes(metrics, 0, "device_health", uuid=devices[1], index="1", reason="fault")
    becomes(metrics, 1, "device_health", uuid=devices[0], index="0", reason="")
    becomes(metrics, 1, "devices", resource=GPU, health="unhealthy")
    with running.plugin_channel(node) as ask:
        ask(devices[1])
        ask("GPU-of-nobody")
    for reason in ("unhealthy_device", "unknown_device"):
        becomes(metrics, 1, "refusals_total", resource=GPU, call="Allocate", reason=reason)

    node.config.write_text("flags: {migStrategy: none}\n")
    becomes(metrics, 1, "config_reloads_total", result="accepted")
    node.config.write_text("flag: {}\n")
    becomes(metrics, 1, "config_reloads_total", result="refused")
    becomes(metrics, 1, "config_refused")

    report = Report(Names(UUID, str(states)), pid=node.daemon.pid if node.daemon else 0)
    report.shares(Shares(4, Fraction(2**30), Fraction(25)), own_shm=False, multi_user=False)
    report.state(READY)
    report.clients({7: (8, 9)})
    becomes(metrics, 1, "mps_state", device=UUID, state="ready")
    becomes(metrics, 1, "mps_servers", device=UUID)
    becomes(metrics, 2, "mps_clients", device=UUID)
    becomes(metrics, 4, "mps_replicas", device=UUID)
    report.failed("it does not answer")
    becomes(metrics, 1, "mps_restarts_total", device=UUID)
    becomes(metrics, 1, "mps_state", device=UUID, state="failed")
    becomes(metrics, 0, "mps_state", device=UUID, state="ready")

    node.sim.ctl("unload")
    becomes(metrics, 0, "driver_available")
    assert (metrics.value("gpu_plugin_nvml_errors_total", gpu="", code="9") or 0) >= 1
    assert metrics.value("gpu_plugin_driver_info") is None

    sources = (*Observer().metrics, Families(dict, lambda: ()))
    families = [family for source in sources for family in source.collect()]
    declared = {one.name + ("_total" if one.type == "counter" else "") for one in families}
    assert metrics.names() == declared


def test_what_is_wrong_with_a_device_is_a_label(make_node: MakeNode, metrics: Metrics) -> None:
    node = make_node(2)
    node.layout(0, "1g.10gb")
    node.start_kubelet()
    start(node, metrics, "flags: {migStrategy: mixed}")
    part = node.sim.ctl("status")["gpus"][0]["mig_devices"][0]["uuid"]
    whole = node.sim.ctl("status")["gpus"][1]["uuid"]
    becomes(metrics, 1, "device_health", uuid=part, index="0:0", reason="")
    node.sim.ctl("fault", gpu="1", function="nvmlDeviceGetMemoryInfo", code=999)
    becomes(metrics, 0, "device_health", uuid=whole, index="1", reason="unreadable")
    assert metrics.value("gpu_plugin_device_health", uuid=whole, reason="") is None
    assert (metrics.value("gpu_plugin_nvml_errors_total", gpu=whole, code="999") or 0) >= 1
    assert metrics.value("gpu_plugin_nvml_errors_total", gpu=part) is None
    node.sim.ctl("clear-faults")
    becomes(metrics, 1, "device_health", uuid=whole, index="1", reason="")


def test_health_and_readiness(make_node: MakeNode, metrics: Metrics) -> None:
    node = make_node(2)
    start(node, metrics)
    assert metrics.get("/healthz") == (200, "ok\n")
    assert metrics.get("/readyz") == (503, f"not registered with the kubelet: {GPU}\n")
    node.start_kubelet()
    eventually(lambda: metrics.get("/readyz") == (200, "ok\n"))
    assert metrics.get("/nowhere")[0] == 404
    node.sim.ctl("unload")
    eventually(lambda: metrics.get("/readyz")[0] == 503)
    assert metrics.get("/healthz")[0] == 200
    node.signal(signal.SIGTERM)
    assert node.ended() == 0


def test_the_address_is_a_key_of_the_configuration(make_node: MakeNode, metrics: Metrics) -> None:
    node = make_node(1)
    text = f"gpuNode: {{metricsAddress: '{metrics.address}'}}"
    with socket.socket() as rival:  # taken, which stops nothing
        host, port = metrics.address.split(":")
        rival.bind((host, int(port)))
        node.start_kubelet()
        node.start_daemon(text, GPU_PLUGIN_METRICS_ADDRESS="")
        node.wait(GPU, 1)
        eventually(lambda: "no metrics are served, trying again" in node.logged())
    node.config.write_text("gpuNode: {metricsAddress: 'off'}")
    eventually(lambda: node.logged().count("configuration loaded") == 1)
    node.config.write_text(text)
    eventually(lambda: metrics.get("/healthz")[0] == 200)
    node.config.write_text("gpuNode: {metricsAddress: 'off'}")
    eventually(lambda: metrics.get("/healthz")[0] == 0)


def test_silent_and_odd_clients_hold_nobody(make_node: MakeNode, metrics: Metrics) -> None:
    node = make_node(1)
    start(node, metrics)
    host, port = metrics.address.split(":")
    with contextlib.ExitStack() as stack:
        for _client in range(30):  # they connect and say nothing
            stack.enter_context(socket.create_connection((host, int(port))))
        for rubbish in (b"\x16\x03\x01\x02\r\n\r\n", b"GET " + b"x" * 20000, b"\r\n\r\n"):
            client = stack.enter_context(socket.create_connection((host, int(port))))
            with contextlib.suppress(OSError):
                client.sendall(rubbish)
                client.shutdown(socket.SHUT_WR)
        for _time in range(5):
            eventually(lambda: metrics.get("/healthz"), (200, "ok\n"))
    eventually(lambda: metrics.get("/metrics")[0] == 200)
    assert "Traceback" not in node.logged()


def test_scrapes_leave_nothing_behind(make_node: MakeNode, metrics: Metrics) -> None:
    node = make_node(1)
    start(node, metrics)
    assert node.daemon is not None
    pid, scrapes = node.daemon.pid, 300
    before = held(pid)
    for _time in range(scrapes):
        eventually(lambda: metrics.get("/metrics")[0], 200)
    eventually(lambda: held(pid).descriptors < before.descriptors + scrapes / 10)
    eventually(lambda: held(pid).threads < before.threads + scrapes / 10)


# --- on its own ---


def test_the_prometheus_client_is_not_loaded_at_the_start() -> None:
    code = "import sys, gpu_plugin.daemon; sys.exit('prometheus_client' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
