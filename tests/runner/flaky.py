# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which tests fail by chance: lanes, again and again, on a busy machine and in random order.

What has been run is kept, so that it can be stopped and goes on, as long as the tree stays the same but for its pages.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

from tests.support.paths import CACHE, DOCS, REPOSITORY

from . import run
from .lanes import Lane

KEPT = CACHE / "flaky.json"
PAGE = DOCS / "evidence/flaky.md"
PAGES = ("CHANGELOG.md", "README.md", "changelogs", "docs")
LOOPS = 2  # busy ones, for each core
Entry = dict[str, Any]


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Keep each core busy with loops of the tests' own priority."""
    words = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(words) for _loop in range(LOOPS * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def tree() -> str:
    """Return a digest of what the tests run, with what is not committed; pages may change."""
    words = ["git", "stash", "create"]
    stash = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    words = ["git", "ls-tree", stash.stdout.strip() or "HEAD"]
    listed = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    run = [line for line in listed.stdout.splitlines() if line.partition("\t")[2] not in PAGES]
    return hashlib.sha256("\n".join(run).encode()).hexdigest()


def kept() -> list[Entry]:
    """Return the runs of this tree so far."""
    if not KEPT.exists():
        return []
    found: dict[str, Any] = json.loads(KEPT.read_text())
    return list(found["runs"]) if found["tree"] == tree() else []


def main(lanes: list[Lane], times: int, times_with_nodes: int) -> int:
    """Run what is not run yet; return 0 where nothing has ever failed."""
    runs = kept()
    some = [lane for lane in lanes if lane.tests]
    with busy():
        for number in range(times):
            for lane in some:
                done = any((one["lane"], one["number"]) == (lane.name, number) for one in runs)
                if done or (lane.nodes and number >= times_with_nodes):
                    continue
                seed = random.randrange(1 << 31)
                logs = CACHE / f"flaky/{number}"
                more = [
                    "-o",
                    "addopts=--import-mode=importlib",
                    "-p",
                    "randomly",
                    f"--randomly-seed={seed}",
                ]
                outcome = run.lane(lane, more, logs)
                print(f"run {number + 1}, seed {seed}:", run.told(outcome, logs), flush=True)
                failed = list(outcome.failed) or ([f"lane {lane.name}"] if outcome.status else [])
                entry = {"lane": lane.name, "number": number, "seed": seed, "failed": failed}
                runs.append({**entry, "passed": outcome.passed, "seconds": round(outcome.seconds)})
                KEPT.write_text(json.dumps({"tree": tree(), "runs": runs}))
    print("\n".join(table(runs)))
    return 1 if any(one["failed"] for one in runs) else 0


def table(runs: list[Entry]) -> list[str]:
    """Return how often each lane ran, and how often each test failed."""
    lines = [
        "| Lane | Runs | Cases a run | Seconds a run | Failures |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(one["lane"] for one in runs):
        of = [one for one in runs if one["lane"] == name]
        seconds = [one["seconds"] for one in of]
        failures = sum(len(one["failed"]) for one in of)
        cases = max(one["passed"] for one in of)
        lines.append(
            f"| {name} | {len(of)} | {cases} | {min(seconds)} to {max(seconds)} | {failures} |"
        )
    failed = Counter(test for one in runs for test in one["failed"])
    return [*lines, "", *(f"- {test}: {count} times" for test, count in failed.most_common())]


def write() -> None:
    """Put the table on its page, with the day and the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    machine = f"{os.cpu_count()} cores, {memory} GiB, Linux {platform.release()}"
    text = PAGE.read_text()
    begin, end = "<!-- runs: written by make flaky -->\n", "<!-- runs: end -->"
    head, _marker, rest = text.partition(begin)
    lines = [f"{date.today().isoformat()}, {machine}, tree `{tree()[:12]}`:", "", *table(kept())]
    PAGE.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2])
