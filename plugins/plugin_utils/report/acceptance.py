# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The acceptance of a node's GPUs for the fleet report, and the fleet's medians of each figure. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._accept.record import MOST_TEXTS
from ansible_collections.gpu.node.plugins.module_utils._checks.report.acceptance import (
    ROW,
    STATES,
    UNTESTED,
)

from ..controller.fleet_floors import MeasuredGpu, compare, known_figures

Json = t.Dict[str, t.Any]
Answer = t.Mapping[str, t.Any]  # what a module returned
PASSED = "passed"
LATEST = 253402300799  # the last second of the year 9999, in seconds since 1970
NEVER_TESTED: t.Mapping[str, t.Any] = {
    **dict.fromkeys(("reason", "verdict", "level", "board", "driver"), ""),
    "state": UNTESTED,
    "at": 0,
    "faults": [],
    "figures": {},
}


def describe_acceptance(status: Answer) -> t.Dict[str, Json]:
    """Return the acceptance of a node's GPUs by UUID; one that is not among them was never tested.

    Args:
        status: The node's own account of itself.

    Raises:
        ValueError: if the node says what no record of tests can have.
    """
    rows = (status.get("acceptance") or {}).get("gpus", ())
    return {row["gpu"]: _describe(row) for row in rows}


def _describe(row: Answer) -> Json:
    if row["state"] not in STATES or not 0 <= row["at"] <= LATEST:
        raise ValueError("no state of an acceptance, or no time")
    if len(row["faults"]) > MOST_TEXTS or not isinstance(row["figures"], dict):
        raise ValueError("no faults or figures of an acceptance")
    described = {key: row[key] for key in ROW if key != "gpu"}
    figures = known_figures(row["figures"])
    return {**described, "figures": {name: _rounded(value) for name, value in figures.items()}}


def compare_fleet(nodes: t.Iterable[Json]) -> t.List[Json]:
    """Return by model, board, driver, and figure the median of the fleet, and below what a GPU is slow.

    Only GPUs whose last test has passed count. There is no median of few GPUs, or of those of mostly one node.
    """
    gpus = (
        MeasuredGpu(
            node["name"],
            gpu["uuid"],
            (gpu["name"], gpu["acceptance"]["board"], gpu["acceptance"]["driver"]),
            gpu["acceptance"]["figures"],
        )
        for node in nodes
        for gpu in node["gpus"]
        if gpu["acceptance"]["verdict"] == PASSED
    )
    return [
        {
            **dict(zip(("model", "board", "driver"), comparison.kind, strict=True)),
            "figure": comparison.figure,
            "gpus": len(comparison.gpus),
            "median": _rounded(comparison.median),
            "floor": _rounded(comparison.floor),
        }
        for comparison in compare(gpus)
    ]


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
