# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a run of the tests consists of: lanes, which run beside each other, by tier."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Processes wait more than they work: for the daemon's next look, for a node that boots.
PURE, WAITING = 2, 5


@dataclass(frozen=True)
class Lane:
    """``tests`` are folders for pytest, ``target`` is what else make runs; ``workers`` share the tests.

    ``nodes`` tells of lanes that start simulated nodes, ``whole`` of those that only `make test-all` has, ``alone`` of
    those that only run where they are named.
    """

    name: str
    tests: tuple[str, ...] = ()
    target: str = ""
    workers: int = PURE
    share: str = "loadfile"
    marked: str = ""
    nodes: bool = False
    whole: bool = False
    alone: bool = False

    def options(self) -> list[str]:
        """Return what pytest is told for this lane."""
        told = ["-q", "-n", str(self.workers), "--dist", self.share, "--durations=25"]
        return [*told, *(["-m", self.marked] if self.marked else []), *self.tests]


SHORT, LONG = "not (long or endurance)", "long"
HERE, NODE = ("tests/pure", "tests/machine"), ("tests/node",)
CLUSTER = ("tests/cluster", "tests/machine/kubernetes")
LANES = (
    Lane("lint", target="lint"),
    Lane("pure", ("tests/pure",), marked=SHORT),
    Lane("docs", ("tests/docs",)),
    Lane("sanity", target="sanity"),
    Lane("machine", ("tests/machine",), workers=WAITING, share="worksteal", marked=SHORT),
    Lane("molecule", target="molecule", nodes=True),
    Lane("node", NODE, workers=3, share="load", marked=SHORT, nodes=True),
    Lane("machine-long", HERE, workers=3, marked=LONG, whole=True),
    Lane("node-long", NODE, workers=3, share="load", marked=LONG, nodes=True, whole=True),
    Lane("endurance", HERE, workers=3, marked="endurance", whole=True),
    Lane("sanity-all", target="sanity-all", whole=True),
    Lane("cluster", CLUSTER, workers=2, nodes=True, alone=True),
)


def chosen(whole: bool) -> list[Lane]:
    """Return the lanes of `make test`, or of `make test-all`."""
    return [lane for lane in LANES if not lane.alone and (whole or not lane.whole)]


def halves(lanes: Iterable[Lane]) -> tuple[list[Lane], list[Lane]]:
    """Return those without nodes and those with: each half runs one lane after the other, beside the other half."""
    every = list(lanes)
    return [lane for lane in every if not lane.nodes], [lane for lane in every if lane.nodes]
