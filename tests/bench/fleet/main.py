# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What fleets of 1, 10, 50 and 200 nodes take of their controller; the cost of a node must not grow with their number.

One simulated node is asked for real. The other hosts are processes that answer what it answered, after the time that it
took: what is measured is the controller. Its own cost for the node that is asked for real stands beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from tests.support.paths import REPOSITORY

from . import nodes
from .draw import table, write
from .matrix import matrix
from .measure import Cost
from .scenes import Scene, scenes, without_pipelining

SIZES = (1, 10, 50, 200)
BUDGET = 1.1  # of the cost of a node among 10, for one among 200
DOCS = REPOSITORY / "docs/images"


def rows(scene: Scene, sizes: list[int], callback: str) -> list[Cost]:
    """Measure each size; the first run of all only warms the controller's caches."""
    scene.run(1)
    found = []
    for size in sizes:
        found.append(scene.run(size, ANSIBLE_STDOUT_CALLBACK=callback))
        print(f"{scene.name:10} {table([found[-1]])[-1]}", flush=True)
    return found


def growth(costs: list[Cost]) -> float:
    """Return how many times the processor's seconds of a node among few are those of a node among most."""
    by_size = {one.nodes: one for one in costs}
    few, many = by_size.get(10, costs[0]), by_size[max(by_size)]
    return many.per_node("processor") / few.per_node("processor")


def record(folder: Path) -> tuple[Scene, Scene]:
    """Ask a bare node and one in service, and keep what they answer."""
    plan, same = scenes(folder)
    with nodes.node("bench-fleet") as name:
        plan.begin(name)
        told(plan)
        nodes.bring_up(name, folder)
        for scene in (same, without_pipelining(folder)):
            scene.begin(name)
            told(scene)
    return plan, same


def told(scene: Scene) -> None:
    cost = scene.genuine(1)
    scene.end()
    print(
        f"{scene.name:10} {table([cost])[-1]}  (asked for real, modules {cost.modules:.1f} s)",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument(
        "--keep", type=Path, help="a folder for the answers; those that it has are taken"
    )
    parser.add_argument("--callback", default="gpu.node.progress")
    parser.add_argument(
        "--draw", action="store_true", help="write the picture and the table of the documentation"
    )
    parser.add_argument("--matrix", type=int, help="try Ansible's settings on so many nodes")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        both = scenes(folder) if (folder / "same/answers").exists() else record(folder)
        print(f"{'':10} {table([])[0]}")
        if options.matrix:
            return matrix(folder, options.matrix)
        found = {scene.name: rows(scene, options.sizes, options.callback) for scene in both}
    if options.draw:
        write(DOCS / "scale.svg", found)
    grown = {name: growth(costs) for name, costs in found.items()}
    for name, ratio in grown.items():
        print(
            f"{name}: a node among {max(options.sizes)} costs {ratio:.2f} of one among 10 (budget {BUDGET})"
        )
    return int(any(ratio > BUDGET for ratio in grown.values()))


if __name__ == "__main__":
    sys.exit(main())
