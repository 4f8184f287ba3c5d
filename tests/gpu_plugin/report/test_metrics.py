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
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gpu_builders import device
from gpu_plugin import __version__
from gpu_plugin.config.configuration import parse
from gpu_plugin.config.schema import address
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.mps.paths import Names
from gpu_plugin.mps.settings import Shares
from gpu_plugin.mps.state import READY, Report, load
from gpu_plugin.observer import BOUNDS, MOST_SERIES, Observer
from gpu_plugin.offer.devices import Devices
from gpu_plugin.report.pages import Families
from gpu_plugin.report.probes import STUCK, health, readiness

if TYPE_CHECKING:
    from conftest import MakeNode
    from running import Node
    from scraping import Metrics

running = pytest.importorskip("running", exc_type=ImportError)
scraping = pytest.importorskip("scraping", exc_type=ImportError)
eventually = running.eventually

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_slow_and_odd_clients_hold_nobody_for_long(make_node: MakeNode, metrics: Metrics) -> None:
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
        begun = time.monotonic()
        for _time in range(5):
            assert metrics.get("/healthz") == (200, "ok\n")
        assert time.monotonic() - begun < 5  # one after the other, each silent one would take 2 s
    eventually(lambda: metrics.get("/metrics")[0] == 200)
    assert "Traceback" not in node.logged()


@pytest.mark.slow
def test_scrapes_leave_nothing_behind(make_node: MakeNode, metrics: Metrics) -> None:
    node = make_node(1)
    start(node, metrics)
    assert node.daemon is not None
    proc = Path(f"/proc/{node.daemon.pid}")

    def held() -> tuple[int, int]:
        return len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir()))

    for _time in range(20):
        metrics.get("/metrics")
    before = held()
    for _time in range(300):
        assert metrics.get("/metrics")[0] == 200
    eventually(lambda: held() <= before)


# --- on its own ---


@pytest.mark.parametrize(
    ("text", "wanted"),
    {
        "127.0.0.1:9402": ("127.0.0.1", 9402),
        "0.0.0.0:1": ("0.0.0.0", 1),
        "[::1]:65535": ("::1", 65535),
        "off": None,
    }.items(),
)
def test_addresses(text: str, wanted: tuple[str, int] | None) -> None:
    assert address("here", text) == wanted
    assert parse(f"gpuNode: {{metricsAddress: '{text}'}}").metrics == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9402",
        ":9402",
        "localhost:9402",
        "127.0.0.1",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:\u0668",
        "::1:80",
        "[127.0.0.1]:80",
        "on",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected ADDRESS:PORT") as caught:
        parse("", flags={"gpuNode.metricsAddress": text})
    assert "flag --metrics-address" in str(caught.value)


def test_series_are_bounded() -> None:
    observer = Observer()
    for number in range(MOST_SERIES + 20):
        observer.count("xids", UUID, str(number), "fatal")
    (xids,) = (one for metric in observer.metrics for one in metric.collect() if one.samples)
    assert len(xids.samples) == MOST_SERIES + 1
    assert {one.labels["gpu"]: one.value for one in xids.samples} == {UUID: 1, "other": 20}


def test_devices_are_bounded_and_a_shared_one_is_there_once() -> None:
    shared = Devices(replace(device(0), id=f"GPU-0::{number}") for number in range(900))
    assert list(shared.reasons) == [("GPU-0", "0")]
    rows = [{"uuid": f"GPU-{at}", "index": str(at), "reason": ""} for at in range(MOST_SERIES + 20)]
    plain = dict.fromkeys(("driver_version", "config_problem"), None)
    empty: dict[str, Any] = {"resources": {}, "chores": {}, "vanished": ()}
    found = {**plain, **empty, "version": "1", "config_sha256": "", "state": "", "devices": rows}
    found["config_fallback"] = False
    (health,) = (
        one for one in Families(lambda: found, lambda: ()).collect() if "device_h" in one.name
    )
    assert len(health.samples) == MOST_SERIES


@pytest.mark.parametrize("place", range(len(BOUNDS)))
def test_a_duration_on_a_bound_belongs_below_it(place: int) -> None:
    observer = Observer()
    observer.took(BOUNDS[place], GPU, "Allocate")
    found = {
        float(sample.labels["le"]): sample.value
        for metric in observer.metrics
        for family in metric.collect()
        for sample in family.samples
        if sample.name == "gpu_plugin_call_duration_seconds_bucket"
    }
    assert found == {bound: bound >= BOUNDS[place] for bound in (*BOUNDS, float("inf"))}


@pytest.mark.parametrize("judge", [health, readiness])
def test_a_loop_that_is_stuck_is_told(judge: Callable[[Mapping[str, Any], float], str]) -> None:
    state = {"problem": None, "resources": {GPU: {"registered": True}}}
    assert judge(state, STUCK) == ""
    assert "has not gone round for 31 seconds" in judge(state, STUCK + 1)


def test_what_a_killed_manager_left_is_read_as_crashed() -> None:
    with tempfile.TemporaryDirectory(prefix="m-") as folder:  # with a short path
        report = Report(Names(UUID, folder), pid=2**22 + 1)
        report.state(READY)
        report.clients({7: (8,)})
        (Path(folder) / "a-b.json").write_text("[]")
        (found,) = load(Path(folder))
    assert (found["state"], found["clients"], found["servers"]) == ("crashed", 0, [])


def test_what_happens_before_the_metrics_are_asked_for_is_in_them() -> None:
    observer = Observer()
    observer.count("xids", UUID, "79", "fatal")
    observer.took(0.1, GPU, "Allocate")
    before = observer.metrics
    observer.count("xids", UUID, "79", "fatal")
    assert observer.metrics == before
    samples = [one for metric in before for family in metric.collect() for one in family.samples]
    found = {one.name: one.value for one in samples if not one.name.endswith("_bucket")}
    assert found["gpu_plugin_xids_total"] == 2
    assert found["gpu_plugin_call_duration_seconds_count"] == 1


def test_the_prometheus_client_is_not_loaded_at_the_start() -> None:
    code = "import sys, gpu_plugin.daemon; sys.exit('prometheus_client' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
