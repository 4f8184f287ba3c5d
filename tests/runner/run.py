# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Run lanes, two at a time: one that has nodes beside one that has none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests.support.paths import CACHE, REPOSITORY

from .lanes import Lane, halves

LOGS = CACHE / "logs"
SHOWN = 150  # lines of a lane that failed


@dataclass(frozen=True)
class Outcome:
    """How a lane ended: seconds that it took, and how often each of its tests failed, by name."""

    lane: Lane
    status: int
    seconds: float
    passed: int = 0
    skipped: int = 0
    failed: tuple[str, ...] = field(default=())


def lane(one: Lane, more: Sequence[str] = (), logs: Path = LOGS) -> Outcome:
    """Run a lane to its end."""
    logs.mkdir(parents=True, exist_ok=True)
    report, log = logs / f"{one.name}.xml", logs / f"{one.name}.log"
    report.unlink(missing_ok=True)
    words = ["make", "--no-print-directory", one.target]
    if one.tests:
        words = [sys.executable, "-m", "pytest", f"--junit-xml={report}", *one.options(), *more]
    named = f"p{os.getpid()}"  # as gpunode_tool.paths.run_of_this_process
    environment = {**os.environ, "GPUNODE_RUN": named} if one.nodes else os.environ
    if one.nodes:
        forget("--killed")
    begun = time.monotonic()
    with log.open("w") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "tests.runner.reap", *words],
            cwd=REPOSITORY,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if one.nodes:
        forget(named)
    return Outcome(one, done.returncode, time.monotonic() - begun, *counted(report))


def forget(what: str) -> None:
    """Remove the nodes and images of a run, or of all that were killed."""
    words = ["tests/fakes/node/gpunode", "forget", what]
    subprocess.run(words, cwd=REPOSITORY, check=False, capture_output=True)


def counted(report: Path) -> tuple[int, int, tuple[str, ...]]:
    """Return how many tests passed and were skipped, and the names of those that failed."""
    if not report.exists():
        return 0, 0, ()
    cases = ElementTree.parse(report).getroot().iter("testcase")
    passed, skipped, failed = 0, 0, []
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname', '').replace('.', '/')}::{case.get('name')}")
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, skipped, tuple(sorted(set(failed)))


def lanes(some: Iterable[Lane], more: Sequence[str] = (), logs: Path = LOGS) -> list[Outcome]:
    """Run lanes, and say how each ended as it does."""
    outcomes: list[Outcome] = []

    def half(of: list[Lane]) -> None:
        for one in of:
            outcomes.append(lane(one, more, logs))
            print(told(outcomes[-1], logs), flush=True)

    other, nodes = halves(some)
    beside = threading.Thread(target=half, args=(nodes,))
    beside.start()
    half(other)
    beside.join()
    return outcomes


def told(outcome: Outcome, logs: Path = LOGS) -> str:
    """Return how a lane ended, with the end of its log where it failed."""
    name, seconds = outcome.lane.name, f"{outcome.seconds:.0f} s"
    counts = f"{outcome.passed} passed, {len(outcome.failed)} failed, {outcome.skipped} skipped"
    if outcome.status == 0:
        return f"passed  {name} ({seconds}){': ' + counts if outcome.lane.tests else ''}"
    tail = (logs / f"{name}.log").read_text(errors="replace").splitlines()[-SHOWN:]
    return "\n".join([f"FAILED  {name} ({seconds}): {counts}", *tail])


def main(some: list[Lane]) -> int:
    """Run lanes; return 0 where all passed."""
    begun = time.monotonic()
    outcomes = lanes(some)
    passed, failed = sum(one.passed for one in outcomes), sum(len(one.failed) for one in outcomes)
    bad = [one.lane.name for one in outcomes if one.status]
    seconds = time.monotonic() - begun
    print(
        f"{passed} passed, {failed} failed in {seconds:.0f} s",
        *(f"lane {one} failed" for one in bad),
        sep="; ",
    )
    return 1 if bad else 0
