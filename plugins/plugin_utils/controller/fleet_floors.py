# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The least that figures of a load test may be, by those of all GPUs of the same product, board, and driver.

A GPU is slow if it is further below the median than others of its kind scatter: by 2.6 standard deviations, which the
median absolute deviation estimates whatever the slow ones are, and by 2.5 % at least. A single node has no say, so that
one that lies can't make others slow.
"""

from __future__ import annotations

import math
import statistics
import typing as t

COMPARED = (
    "float32_tflops",
    "tensor_tflops",
    "memory_gb_per_s",
    "host_to_device_gb_per_s",
    "device_to_host_gb_per_s",
    "peer_gb_per_s",
)
LEAST_GPUS = 8
DEVIATIONS, LEAST_SHARE = 2.6, 0.025
SIGMA = 1.4826  # standard deviations in a median absolute deviation of normal noise
PASSED = "passed"


class MeasuredGpu(t.NamedTuple):
    """A GPU that passed its own test; ``kind`` is its product, board, and driver."""

    node: str
    uuid: str
    kind: tuple[str, ...]
    figures: t.Mapping[str, float]


class SlowGpu(t.NamedTuple):
    """A figure of a GPU below its floor, with the median of so many GPUs of its kind."""

    node: str
    uuid: str
    figure: str
    value: float
    floor: float
    median: float
    number: int

    def __str__(self) -> str:
        below = 100 * (1 - self.value / self.median)
        return (
            f"{self.node}: GPU {self.uuid}: {self.figure} is {self.value:.4g}, {below:.1f} % below the median of"
            f" {self.number} GPUs of its kind ({self.median:.4g})"
        )


def measured_gpus(node: str, rows: t.Iterable[t.Any]) -> list[MeasuredGpu]:
    """Return the GPUs that passed by a node's answer; what is no row of gpu.node.accept is left out."""
    gpus = []
    for row in rows:
        if isinstance(row, dict) and row.get("verdict") == PASSED:
            kind = tuple(str(row.get(key, "")) for key in ("product", "board", "driver"))
            figures = row.get("figures")
            known = {
                name: float(figures[name])
                for name in COMPARED
                if isinstance(figures, dict) and _is_figure(figures.get(name))
            }
            gpus.append(MeasuredGpu(node, str(row.get("uuid", "")), kind, known))
    return gpus


def _is_figure(value: t.Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0


def slow_gpus(gpus: t.Sequence[MeasuredGpu]) -> list[SlowGpu]:
    """Return the figures that are below the floors of their kind, in the order of the GPUs."""
    slow = []
    for kind in dict.fromkeys(gpu.kind for gpu in gpus):
        for figure in COMPARED:
            alike = [gpu for gpu in gpus if gpu.kind == kind and figure in gpu.figures]
            shares = [
                sum(gpu.node == node for gpu in alike) for node in {gpu.node for gpu in alike}
            ]
            if len(alike) < LEAST_GPUS or 2 * max(shares) >= len(alike):
                continue
            values = [gpu.figures[figure] for gpu in alike]
            median = statistics.median(values)
            deviation = SIGMA * statistics.median(abs(value - median) for value in values)
            floor = median - max(DEVIATIONS * deviation, LEAST_SHARE * median)
            slow += [
                SlowGpu(gpu.node, gpu.uuid, figure, gpu.figures[figure], floor, median, len(alike))
                for gpu in alike
                if gpu.figures[figure] < floor
            ]
    return slow


def fleet_floors(answers: t.Mapping[str, t.Iterable[t.Any]]) -> dict[str, t.Any]:
    """Return what gpu.node.accept is to test again, by the answers of nodes.

    Returns:
        ``slow``, a line for each figure that is too low, and ``floors``, by node and UUID the floors of those figures.
    """
    gpus = [gpu for node, rows in answers.items() for gpu in measured_gpus(node, rows)]
    floors: dict[str, dict[str, dict[str, float]]] = {}
    slow = slow_gpus(gpus)
    for gpu in slow:
        floors.setdefault(gpu.node, {}).setdefault(gpu.uuid, {})[gpu.figure] = gpu.floor
    return {"slow": list(map(str, slow)), "floors": floors}
