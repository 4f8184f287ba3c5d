# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How the DRA driver tells of its devices' health, of itself by metrics, and how faults are cleared."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_plugin._shared._base.dra.checkpoint import Device, Instance
from gpu_plugin.dra.health import DeviceHealth, HealthNews, health
from gpu_plugin.model.inventory import GpuView, Inventory, Kind, Problem
from gpu_plugin.proto.dra_health_v1alpha1 import api_pb2

from tests.fakes.daemon.gpu_builders import gpu
from tests.fakes.daemon.scraping import Metrics
from tests.fakes.dra.driving import DRIVER, POOL, MakeDra
from tests.support.waiting import LIMIT, eventually

SICK = Problem(Kind.FAULT, "XID 79")


def stamp(path: Path) -> int:
    """Return when a file was made, in whole seconds as the kubelet is told."""
    path.touch()
    return int(path.stat().st_mtime)


def test_a_sick_gpu_is_unhealthy_with_all_its_devices_until_it_is_cleared(
    make_dra: MakeDra, tmp_path: Path
) -> None:
    node = make_dra()
    node.start()
    names = ("gpu-0", "gpu-0-share", "gpu-1", "gpu-1-share")

    def seen() -> dict[str, int]:
        found = node.plugin.health
        return {name: found[POOL, name].health for name in names if (POOL, name) in found}

    healthy, unhealthy = api_pb2.HEALTHY, api_pb2.UNHEALTHY
    eventually(lambda: seen() == dict.fromkeys(names, healthy))
    before = stamp(tmp_path / "before")
    node.sim.ctl("xid", gpu="0", number=48)
    sick = {"gpu-0": unhealthy, "gpu-0-share": unhealthy, "gpu-1": healthy, "gpu-1-share": healthy}
    eventually(lambda: seen() == sick)
    told = node.plugin.health[POOL, "gpu-0"]
    assert "48" in told.message
    assert before <= told.last_updated_time <= stamp(tmp_path / "after")
    eventually(lambda: all(node.devices().get(one, {}).get("taints") for one in names[:2]))
    requests = node.status_file.parent / "dra/health.clear"
    requests.mkdir(mode=0o700)
    (requests / node.uuids()[0]).touch()
    eventually(lambda: seen() == dict.fromkeys(names, healthy))


def test_health_is_told_again_and_again_and_at_once_where_it_changes() -> None:
    news, first = HealthNews(), (DeviceHealth("n", "gpu-0", healthy=True),)
    news.put(first)
    stream = news.follow(lambda: True, again=0.05)
    assert list(itertools.islice(stream, 3)) == [first] * 3
    asked: list[bool] = []
    slow = news.follow(lambda: not asked.append(True), again=10 * LIMIT)
    assert next(slow) == first
    second = (DeviceHealth("n", "gpu-0", healthy=False, message="x"),)
    before = len(asked)
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(next, slow)
        eventually(lambda: len(asked) > before)  # it has begun to wait
        news.put(second)
        assert found.result(LIMIT) == second
    news.close()
    assert list(slow) == []


def test_streams_that_nobody_reads_make_room_for_the_kubelets() -> None:
    news = HealthNews()
    streams = [news.follow(lambda: True, again=0.01) for _one in range(6)]
    for one in streams:
        next(one)
    assert list(streams[0]) == []
    assert next(streams[5]) == ()


def test_a_mig_device_is_as_healthy_as_its_instance() -> None:
    view = GpuView(gpu(0, mig=True), mig_problems={"MIG-a": SICK})
    held = [
        Device(
            "r",
            "old",
            f"gpu-0-mig-1g10gb-19-{at}",
            "GPU-0",
            0,
            instance=Instance(19, at, made=True, uuid=uuid),
        )
        for at, uuid in ((0, "MIG-a"), (1, "MIG-b"))
    ]
    found = health("n", ("gpu-0-mig-1g10gb-19-2",), held, Inventory("550", (view,)))
    assert [(one.pool, one.device[-1], one.healthy) for one in found] == [
        ("n", "2", True),
        ("old", "0", False),
        ("old", "1", True),
    ]
    away = health("n", ("gpu-0",), (), Inventory("", absent="not loaded"))
    assert away == (DeviceHealth("n", "gpu-0", None, "not loaded"),)


def test_metrics_tell_of_claims_and_of_what_each_gpu_gave(make_dra: MakeDra) -> None:
    node, metrics = make_dra(1), Metrics()
    node.start("{enforcement: none}", "--dra-metrics-address", metrics.address)
    claim = node.claim("one", "gpu-0-share")
    node.start_pod(claim)
    uuid = node.uuids()[0]
    labels = {"uuid": uuid, "index": "0"}
    eventually(lambda: metrics.value("gpu_plugin_dra_claims", state="prepared") == 1)
    assert metrics.value("gpu_plugin_dra_gpu_shares", **labels) == 1
    assert metrics.value("gpu_plugin_dra_gpu_memory_bytes", **labels) == 10000 << 20
    assert metrics.value("gpu_plugin_dra_gpu_cores_percent", **labels) == 30
    assert metrics.value("gpu_plugin_dra_registered") == 1
    timed = {"resource": DRIVER, "call": "NodePrepareResources"}
    eventually(lambda: metrics.value("gpu_plugin_call_duration_seconds_count", **timed), 1)
    eventually(lambda: metrics.get("/readyz")[0] == 200)
