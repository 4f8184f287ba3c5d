# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How quick the DRA driver prepares claims, beside up to a thousand others, and what memory that takes.

A GPU has as many shares as it may have; enforcement is none, so that what is timed is the driver alone. The API is
a stand-in on the same machine.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.paths import TESTS

sys.path[:0] = [str(TESTS / "gpu_plugin" / one) for one in ("dra", "dra/publish")]

from nvsim import testing  # noqa: E402
from standin_kubelet.dra import Claim  # noqa: E402

from tests.fakes.dra.driving import DRIVER, DraNode  # noqa: E402

CAPACITY = {"memory": "100Mi", "cores": "0", "shares": "1"}
DRA = "{enforcement: none, splitCount: 256, memoryScaling: 1}"
GPUS = 8
LIMITS = {"ms": 50.0, "MiB": 96.0}


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def resident(node: DraNode) -> float:
    """MiB of the driver's process that are in memory."""
    assert node.process is not None
    lines = Path(f"/proc/{node.process.pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) / 1024


def show(name: str, times: list[float], interpreter: float) -> float:
    """Print the median and the 99th percentile; return the latter in milliseconds."""
    times = sorted(times)
    middle, late = statistics.median(times), times[int(len(times) * 0.99)]
    print(
        f"{name}: {1000 * middle:.2f} ms, 99 of 100 in {1000 * late:.2f} ms, "
        f"{middle / interpreter:.3f} and {late / interpreter:.3f} of an interpreter's start"
    )
    return 1000 * late


def main(count: int) -> None:
    interpreter = statistics.median(
        seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
        for _time in range(9)
    )
    with (
        tempfile.TemporaryDirectory(prefix="dra-") as folder,
        testing.start("h100-80", GPUS) as sim,
    ):
        node = DraNode(Path(folder), sim)
        try:
            node.env["MALLOC_ARENA_MAX"] = "2"  # as the unit has it
            node.start(DRA)
            print(f"without claims: {resident(node):.1f} MiB resident")
            claims: list[Claim] = [
                node.claim(f"c{i}", f"gpu-{i % GPUS}-share", capacity=CAPACITY)
                for i in range(count)
            ]

            def prepare(claim: Claim) -> None:
                answer = node.plugin.prepare([claim])
                assert not answer.claims[claim[2]].error, answer.claims[claim[2]].error

            def unprepare(claim: Claim) -> None:
                answer = node.plugin.unprepare([claim])
                assert not answer.claims[claim[2]].error, answer.claims[claim[2]].error

            times = [seconds(lambda one=claim: prepare(one)) for claim in claims]
            first, last = times[: count // 10], times[-count // 10 :]
            show(f"prepare, the first {len(first)} of {count} claims", first, interpreter)
            late = show(f"prepare, the last {len(last)} of {count} claims", last, interpreter)
            held = resident(node)
            print(f"{count} claims prepared: {held:.1f} MiB resident")
            again = [seconds(lambda one=claim: prepare(one)) for claim in claims[-count // 10 :]]
            show(f"prepare what is prepared, beside {count} claims", again, interpreter)
            undone = [seconds(lambda one=claim: unprepare(one)) for claim in claims]
            show(f"unprepare, {count} claims", undone, interpreter)
            print(f"afterwards: {resident(node):.1f} MiB resident")
            print(
                f"{DRIVER}: prepare {late:.1f} of {LIMITS['ms']:.0f} ms, memory {held:.1f} of {LIMITS['MiB']:.0f} MiB"
            )
        finally:
            node.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=int, default=1000)
    main(parser.parse_args().claims)
