# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How soon the webhook answers for a small pod at rest and under a hostile load, and what memory that takes.

The load is a process of its own: tests/fakes/kubernetes/webhook_load.py. The API server is the stand-in, or a genuine
one where KUBE_BIN names a folder with it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fakes.cluster.hami_pods import limits, pod
from tests.fakes.kubernetes.reviews import asked
from tests.fakes.kubernetes.webhook_cluster import CLUSTERS
from tests.fakes.kubernetes.webhook_load import Client, memory
from tests.support import helper_process

PODS, SECONDS = 500, 60.0  # that the load goes on for at least
LONGEST, MOST = 1.0, 256.0  # seconds of an answer, and MiB
SMALL = asked(pod(limits(gpu=1, gpumem=3000)), namespace="team")


def answers(client: Client, seconds: float) -> list[float]:
    """Ask again and again; return how long each answer took. AssertionError: a pod was not let in."""
    found: list[float] = []
    end = time.monotonic() + seconds
    while len(found) < PODS or time.monotonic() < end:
        begun = time.perf_counter()
        status, response = client.ask(SMALL)
        found.append(time.perf_counter() - begun)
        assert (status, response.get("allowed")) == (200, True), (status, response)
    return sorted(found)


def show(name: str, times: list[float]) -> None:
    middle, late = statistics.median(times), times[int(len(times) * 0.99)]
    shown = ", ".join(f"{1000 * one:.1f} ms" for one in (middle, late, times[-1]))
    print(f"{name}: {shown} (median, 99 of 100, longest) of {len(times)} pods")


def main() -> bool:
    kind = "genuine" if os.environ.get("KUBE_BIN") else "stand-in"
    with tempfile.TemporaryDirectory() as folder, CLUSTERS[kind](Path(folder)) as cluster:
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        replica = cluster.replica("one", kubeconfig=cluster.least())
        replica.wait()
        pid, words = replica.process.pid, [str(replica.port), cluster.path()]
        client = Client(replica.port, cluster.path())
        calm = answers(client, 0)
        show(f"at rest, {kind} API server", calm)
        print(f"at rest: {memory(pid):.0f} MiB at most")
        load = [sys.executable, "-m", "tests.fakes.kubernetes.webhook_load", *words]
        with helper_process.start(
            load, stdin=subprocess.PIPE, ready=helper_process.executed
        ) as hostile:
            busy = answers(client, SECONDS)
            assert hostile.stdin is not None
            hostile.stdin.close()
        show("under load", busy)
        most = memory(pid)
        print(
            f"under load: {statistics.median(busy) / statistics.median(calm):.1f} times as long, "
            f"{most:.0f} MiB at most, {most / MOST:.2f} of {MOST:.0f} MiB"
        )
    return busy[-1] < LONGEST and most < MOST


if __name__ == "__main__":
    sys.exit(not main())
