# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long the MIG planner takes for a node of 16 GPUs, against the start of a Python interpreter."""

from __future__ import annotations

import gc
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from ansible_collections.gpu.node.plugins.module_utils._mig.plan import GpuState, plan_gpu

from tests.fakes.library.grids import A100, GPU
from tests.fakes.library.oracle import ALL_A100, instances, layout

GPUS, NODES = 16, 60


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    """Plan for many nodes, each GPU from a random layout to another, and print ratios."""
    random.seed(1)
    interpreter = statistics.median(
        seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
        for _again in range(9)
    )
    times = []
    gc.disable()
    for _node in range(NODES):
        pairs = [(random.choice(ALL_A100), random.choice(ALL_A100)) for _gpu in range(GPUS)]
        work = [
            (GpuState(GPU, A100, tuple(instances(A100, start)), ()), layout(goal))
            for start, goal in pairs
        ]
        times.append(seconds(lambda work=work: [plan_gpu(one, True, goal) for one, goal in work]))
    for name, value in (("median", statistics.median(times)), ("worst", max(times))):
        print(
            f"MIG plan for {GPUS} A100s, {name}: {1000 * value:.1f} ms, "
            f"{value / interpreter:.2f} of an interpreter's start"
        )


if __name__ == "__main__":
    main()
