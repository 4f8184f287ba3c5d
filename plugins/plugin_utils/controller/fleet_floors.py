# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The least that figures of a test may be, by those of all GPUs of the same product, board, and driver.

A GPU is slow if it is further below the median than others of its kind scatter: by 2.6 standard deviations, which the
median absolute deviation estimates whatever the slow ones are, and by 2.5 % at least. A single node has no say, so that
one that lies can't make others slow.
"""

from __future__ import annotations

import collections
import statistics
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._accept.verdict import (
    PEER_FIGURES,
    TOOL_FIGURES,
)

COMPARED = (
    "float32_tflops",
    "tensor_tflops",
    "memory_gb_per_s",
    "host_to_device_gb_per_s",
    "device_to_host_gb_per_s",
    "peer_gb_per_s",
    *TOOL_FIGURES,
)
MOST = 1e12  # of a figure: no GPU has so much, and sums of such numbers stay finite
LEAST_GPUS = 8
DEVIATIONS, LEAST_SHARE = 2.6, 0.025
SIGMA = 1.4826  # standard deviations in a median absolute deviation of normal noise
PASSED = "passed"

Kind = tuple[str, ...]


class MeasuredGpu(t.NamedTuple):
    """A GPU that passed its own test; ``kind`` is its product, board, and driver."""

    node: str
    uuid: str
    kind: Kind
    figures: t.Mapping[str, float]


class Comparison(t.NamedTuple):
    """A figure of all GPUs of a kind, with their median, and the floor below which one of them is slow."""

    kind: Kind
    figure: str
    gpus: t.Sequence[MeasuredGpu]
    median: float
    floor: float


class SlowGpu(t.NamedTuple):
    """A figure of a GPU that is below its floor."""

    gpu: MeasuredGpu
    comparison: Comparison

    def __str__(self) -> str:
        figure, median = self.comparison.figure, self.comparison.median
        value = self.gpu.figures[figure]
        return (
            f"{self.gpu.node}: GPU {self.gpu.uuid}: {figure} is {value:.4g}, {100 * (1 - value / median):.1f} % below"
            f" the median of {len(self.comparison.gpus)} GPUs of its kind ({median:.4g})"
        )


def measured_gpus(node: str, rows: t.Iterable[t.Any]) -> list[MeasuredGpu]:
    """Return the GPUs that passed by a node's answer; what is no row of gpu.node.accept is left out."""
    gpus = []
    for row in rows:
        if isinstance(row, dict) and row.get("verdict") == PASSED:
            kind = tuple(str(row.get(key, "")) for key in ("product", "board", "driver"))
            figures = known_figures(row.get("figures"))
            gpus.append(MeasuredGpu(node, str(row.get("uuid", "")), kind, figures))
    return gpus


def known_figures(figures: t.Any) -> dict[str, float]:
    """Return the figures that are compared, of those in a node's answer; what is no figure is left out."""
    if not isinstance(figures, dict):
        return {}
    return {name: float(figures[name]) for name in COMPARED if _is_figure(figures.get(name))}


def _is_figure(value: t.Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < MOST


def compare(gpus: t.Iterable[MeasuredGpu]) -> t.Iterator[Comparison]:
    """Yield the comparisons of kinds and figures of which there are enough GPUs, and not most of them on one node."""
    alike: dict[tuple[Kind, str], list[MeasuredGpu]] = collections.defaultdict(list)
    for gpu in gpus:
        for figure in gpu.figures:
            alike[gpu.kind, figure].append(gpu)
    for (kind, figure), group in alike.items():
        largest_share = max(collections.Counter(gpu.node for gpu in group).values())
        if len(group) < LEAST_GPUS or 2 * largest_share >= len(group):
            continue
        values = [gpu.figures[figure] for gpu in group]
        median = statistics.median(values)
        deviation = SIGMA * statistics.median(abs(value - median) for value in values)
        floor = median - max(DEVIATIONS * deviation, LEAST_SHARE * median)
        yield Comparison(kind, figure, group, median, floor)


def slow_gpus(gpus: t.Iterable[MeasuredGpu]) -> list[SlowGpu]:
    """Return the figures that are below the floors of their kind."""
    return [
        SlowGpu(gpu, comparison)
        for comparison in compare(gpus)
        for gpu in comparison.gpus
        if gpu.figures[comparison.figure] < comparison.floor
    ]


def fleet_floors(answers: t.Mapping[str, t.Iterable[t.Any]]) -> dict[str, t.Any]:
    """Return what gpu.node.accept is to test again, by the answers of nodes.

    Returns:
        ``slow``, a line for each figure that is too low, and ``tests``, by node the tests to run, each with its
        ``gpus`` and ``floors``.
    """
    gpus = [gpu for node, rows in answers.items() for gpu in measured_gpus(node, rows)]
    slow = slow_gpus(gpus)
    by_kind: dict[tuple[str, Kind], list[SlowGpu]] = collections.defaultdict(list)
    for slow_gpu in slow:
        by_kind[slow_gpu.gpu.node, slow_gpu.gpu.kind].append(slow_gpu)
    tests: dict[str, list[dict[str, t.Any]]] = {}
    for (node, kind), slow_alike in by_kind.items():
        uuids = [gpu.uuid for gpu in gpus if (gpu.node, gpu.kind) == (node, kind)]
        tests.setdefault(node, []).extend(_tests(slow_alike, uuids))
    return {"slow": list(map(str, slow)), "tests": tests}


def _tests(slow: t.Sequence[SlowGpu], alike: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Return the tests of a node's slow GPUs of one kind: one by one, or where links are slow all that are alike."""
    if any(slow_gpu.comparison.figure in PEER_FIGURES for slow_gpu in slow):
        return [{"gpus": list(alike), "floors": _floors(slow)}]
    return [
        {"gpus": [uuid], "floors": _floors(figure for figure in slow if figure.gpu.uuid == uuid)}
        for uuid in dict.fromkeys(slow_gpu.gpu.uuid for slow_gpu in slow)
    ]


def _floors(slow: t.Iterable[SlowGpu]) -> dict[str, float]:
    return {slow_gpu.comparison.figure: slow_gpu.comparison.floor for slow_gpu in slow}
