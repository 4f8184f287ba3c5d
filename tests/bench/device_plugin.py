# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How quick the device plugin is, alone and with a kubelet, against the start of an interpreter."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import grpc
from gpu_plugin._shared._base.gpu import Links
from gpu_plugin.advertise.allocation import grant
from gpu_plugin.advertise.preference import prefer
from gpu_plugin.config.configuration import parse
from gpu_plugin.model.inventory import Devices, HostState
from gpu_plugin.model.topology import Topology
from gpu_plugin.proto.v1beta1 import api_pb2, rpc
from nvsim import testing

from tests.bench.wire import Wire
from tests.fakes.daemon.gpu_builders import device, share
from tests.fakes.daemon.running import Node
from tests.fakes.daemon.scraping import Metrics
from tests.support.waiting import eventually

GPU = "nvidia.com/gpu"
CONFIG = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 100}]}}"
MIXED = "flags: {migStrategy: mixed}"
SIXTEEN = Devices(device(index, index // 8) for index in range(16))


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def show(name: str, times: list[float], interpreter: float) -> None:
    """Print the median and the 99th percentile."""
    times.sort()
    middle, late = statistics.median(times), times[int(len(times) * 0.99)]
    print(
        f"{name}: {1000 * middle:.2f} ms, 99 of 100 in {1000 * late:.2f} ms, "
        f"{middle / interpreter:.3f} and {late / interpreter:.3f} of an interpreter's start"
    )


def decisions(interpreter: float) -> None:
    """Time what the answers are made of."""
    levels = {
        frozenset((one.id, other.id)): 10 if one.order[0] // 2 == other.order[0] // 2 else 40
        for one, other in itertools.combinations(SIXTEEN[:8], 2)
    }
    topology = Topology(levels, {one.id: Links(12, {}) for one in SIXTEEN})
    names = [one.id for one in SIXTEEN]
    config = parse(CONFIG)
    replicas = Devices(share({GPU: SIXTEEN[:8]}, config.sharing)[GPU])
    ids = [one.id for one in replicas]
    for name, work in (
        ("choose 8 of 16 GPUs", lambda: prefer(SIXTEEN, names, [], 8, topology=topology)),
        ("choose 1 of 800 shares", lambda: prefer(replicas, ids, [], 1)),
        ("grant 1 of 800 shares", lambda: grant(replicas, ids[:1], config, HostState())),
    ):
        show(name, [seconds(work) for _time in range(500)], interpreter)


def answers(node: Node, interpreter: float) -> None:
    """Time what a kubelet waits for, with a client that costs next to nothing."""
    begun = time.perf_counter()
    node.start_daemon(CONFIG)
    ids = list(node.wait(GPU, 800)["devices"])
    taken = time.perf_counter() - begun
    print(f"start to 800 shares: {1000 * taken:.0f} ms, {taken / interpreter:.1f} of a start")
    allocate, choose = api_pb2.AllocateRequest(), api_pb2.PreferredAllocationRequest()
    allocate.container_requests.add(devices_ids=ids[:1])
    choose.container_requests.add(available_deviceIDs=ids, allocation_size=1)
    wire = Wire(node.plugins / "nvidia-gpu.sock")
    for name, method, request in (
        ("an empty call", rpc.GET_DEVICE_PLUGIN_OPTIONS, b""),
        ("Allocate", rpc.ALLOCATE, allocate.SerializeToString()),
        ("GetPreferredAllocation", rpc.GET_PREFERRED_ALLOCATION, choose.SerializeToString()),
    ):
        show(name, calm(lambda m=method, r=request: wire.call(m, r)), interpreter)  # type: ignore[misc]
    wire.close()
    times = []
    for index in range(8):
        eventually(lambda: GPU in node.status()["resources"])
        begun = time.perf_counter()
        node.sim.ctl("xid", gpu=str(index), number=48)
        node.wait(GPU, 700 - 100 * index)
        times.append(time.perf_counter() - begun)
    show("an XID until the kubelet has it", times, interpreter)


def calm(work: Callable[[], object]) -> list[float]:
    """Return the times of the calmest of ten runs, since other processes disturb."""
    runs = [[seconds(work) for _time in range(300)] for _run in range(10)]
    return min(runs, key=lambda times: sorted(times)[297])


def rest(node: Node, config: str, name: str) -> None:
    """Show what a daemon takes that serves metrics and has nothing to do."""
    node.start_daemon(config, "--rescan", "5", "--metrics-address", Metrics().address)
    eventually(lambda: "metrics are served" in node.logged())
    time.sleep(2)  # for what is late
    assert node.daemon is not None
    proc = Path(f"/proc/{node.daemon.pid}")
    begun, spent = time.monotonic(), busy(proc)
    time.sleep(10)
    share = (busy(proc) - spent) / (time.monotonic() - begun)
    status = (proc / "status").read_text()
    memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    print(f"{name}: {share:.2%} of a processor, {int(memory.split()[1]) / 1024:.1f} MiB resident")


def busy(proc: Path) -> float:
    """Return the seconds that a process has had a processor for."""
    stats = [(task / "schedstat").read_text() for task in (proc / "task").iterdir()]
    return sum(int(one.split()[0]) for one in stats) / 1e9


def starts(node: Node, interpreter: float) -> None:
    """Time the way to the first registration, with each GPU in seven MIG devices."""
    for gpu in range(8):
        node.layout(gpu, *["1g.10gb"] * 7)
    node.plugins.mkdir()
    heard = threading.Event()

    def register(_request: object, _context: object) -> api_pb2.Empty:
        heard.set()
        return api_pb2.Empty()

    handler = grpc.unary_unary_rpc_method_handler(
        register, lambda data: data, api_pb2.Empty.SerializeToString
    )
    kubelet = grpc.server(futures.ThreadPoolExecutor(2))
    kubelet.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(rpc.REGISTRATION, {"Register": handler}),)
    )
    kubelet.add_insecure_port(f"unix://{node.plugins}/kubelet.sock")
    kubelet.start()
    library = min(
        seconds(lambda: subprocess.run([sys.executable, "-c", "import grpc"], check=True))
        for _again in range(5)
    )
    times = []
    for _again in range(7):
        heard.clear()
        begun = time.perf_counter()
        node.start_daemon(MIXED)
        assert heard.wait(20)
        times.append(time.perf_counter() - begun)
        assert node.daemon is not None
        node.daemon.kill()
    kubelet.stop(0)
    best = min(times)
    print(
        f"start to Register with 56 MIG devices: {1000 * best:.0f} ms, {best / interpreter:.1f} of "
        f"an interpreter's start, {best / library:.1f} of the time to import grpc"
    )


@contextlib.contextmanager
def made() -> Iterator[Node]:
    """A node with 8 GPUs."""
    node = Node(Path(tempfile.mkdtemp(prefix="gp-")), testing.start("h100-80", 8))
    try:
        yield node
    finally:
        node.stop()
        node.sim.stop()


def main() -> None:
    """Run everything."""
    interpreter = statistics.median(
        seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
        for _again in range(9)
    )
    decisions(interpreter)
    with made() as node:
        node.start_kubelet()
        answers(node, interpreter)
    for name, config in (("8 GPUs at rest", ""), ("800 shares at rest", CONFIG)):
        with made() as node:
            node.start_kubelet()
            rest(node, config, name)
    with made() as node:
        starts(node, interpreter)


if __name__ == "__main__":
    main()
