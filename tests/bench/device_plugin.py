# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How quick the device plugin is, alone and with a kubelet, against the start of an interpreter."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import grpc
from gpu_builders import device
from gpu_plugin._shared._nvml.api import Links
from gpu_plugin.allocation import Surroundings, grant
from gpu_plugin.config import parse
from gpu_plugin.preference import prefer
from gpu_plugin.proto.v1beta1 import api_pb2, rpc
from gpu_plugin.replicas import share
from gpu_plugin.topology import Topology
from nvsim import testing
from running import Node, eventually

GPU = "nvidia.com/gpu"
CONFIG = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 100}]}}"
SIXTEEN = tuple(device(index, index // 8) for index in range(16))


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
    replicas = share({GPU: SIXTEEN[:8]}, config.sharing)[GPU]
    ids = [one.id for one in replicas]
    for name, work in (
        ("choose 8 of 16 GPUs", lambda: prefer(SIXTEEN, names, [], 8, topology=topology)),
        ("choose 1 of 800 shares", lambda: prefer(replicas, ids, [], 1)),
        ("grant 1 of 800 shares", lambda: grant(replicas, ids[:1], config, Surroundings())),
    ):
        show(name, [seconds(work) for _time in range(500)], interpreter)


def answers(node: Node, interpreter: float) -> None:
    """Time what a kubelet waits for; the client's own time is in it."""
    begun = time.perf_counter()
    node.start_daemon(CONFIG)
    ids = list(node.wait(GPU, 800)["devices"])
    taken = time.perf_counter() - begun
    print(f"start to 800 shares: {1000 * taken:.0f} ms, {taken / interpreter:.1f} of a start")
    request = api_pb2.AllocateRequest()
    request.container_requests.add(devices_ids=ids[:1])
    with grpc.insecure_channel(f"unix://{node.plugins}/nvidia-gpu.sock") as channel:
        call = channel.unary_unary(
            rpc.ALLOCATE,
            request_serializer=api_pb2.AllocateRequest.SerializeToString,
            response_deserializer=api_pb2.AllocateResponse.FromString,
        )
        times = [seconds(lambda: call(request, timeout=5)) for _time in range(1000)]
    show("Allocate", times, interpreter)
    times = []
    for index in range(8):
        eventually(lambda: GPU in node.status()["resources"])
        begun = time.perf_counter()
        node.sim.ctl("xid", gpu=str(index), number=48)
        node.wait(GPU, 700 - 100 * index)
        times.append(time.perf_counter() - begun)
    show("an XID until the kubelet has it", times, interpreter)
    assert node.daemon is not None
    status = Path(f"/proc/{node.daemon.pid}/status").read_text()
    memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    print(f"resident memory: {int(memory.split()[1]) / 1024:.1f} MiB")


def main() -> None:
    """Run everything."""
    interpreter = statistics.median(
        seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
        for _again in range(9)
    )
    decisions(interpreter)
    node = Node(Path(tempfile.mkdtemp(prefix="gp-")), testing.start("h100-80", 8))
    try:
        node.start_kubelet()
        answers(node, interpreter)
    finally:
        node.stop()
        node.sim.stop()


if __name__ == "__main__":
    main()
