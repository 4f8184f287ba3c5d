# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which tests fail by chance: lanes, again and again, on a busy machine and in random order.

What has been run is kept, so that it can be stopped and goes on. A file of tests that has changed runs anew; so does
all where something has changed that tests share, but for pages.
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
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from fnmatch import fnmatch
from typing import Any

from tests.support import helper_process
from tests.support.paths import CACHE, DOCS, REPOSITORY

from . import run
from .lanes import LANES, Lane, halves

KEPT = CACHE / "flaky.json"
PAGE = DOCS / "evidence/flaky.md"
PAGES = ("CHANGELOG.md", "README.md", "changelogs", "docs")
LOOPS = 2  # busy ones, for each core
EAGER = 2  # times as many workers, so that the loops leave them something
NOTHING = 5  # the status of pytest where no test of these files is of the lane
Entry = dict[str, Any]


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Keep each core busy with loops of the tests' own priority, which end with this process."""
    words = [sys.executable, "-c", f"import os\nwhile os.getppid() == {os.getpid()}: pass"]
    loops = [
        helper_process.start(words, ready=helper_process.executed)
        for _loop in range(LOOPS * (os.cpu_count() or 1))
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()


def tree() -> tuple[str, dict[str, str]]:
    """Return a digest of what tests share, with what is not committed, and that of each file of tests by its path."""
    words = ["git", "stash", "create"]
    stash = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    words = ["git", "ls-tree", "-r", stash.stdout.strip() or "HEAD"]
    listed = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    pairs = (line.rpartition("\t")[::2] for line in listed.stdout.splitlines())
    digests = {path: about.split()[2] for about, path in pairs if not path.startswith(PAGES)}
    tests = {path: one for path, one in digests.items() if fnmatch(path, "tests/*/test_*.py")}
    shared = sorted(digests.items() - tests.items())
    return hashlib.sha256(repr(shared).encode()).hexdigest(), tests


def standing(failed: Iterable[str], files: Iterable[str]) -> list[str]:
    """Return what failed of these files, which are the same today, or of a lane itself."""
    names = tuple(path.removesuffix(".py") + end for path in files for end in ("::", "/"))
    return [test for test in failed if test.startswith((*names, "lane "))]


class Kept:
    """The runs so far of tests that are the same today, as is all that they share."""

    def __init__(self) -> None:
        self._shared, self._tests = tree()
        found = json.loads(KEPT.read_text()) if KEPT.exists() else {"shared": ""}
        self.runs: list[Entry] = found["runs"] if found["shared"] == self._shared else []
        self._lock = threading.Lock()
        for one in self.runs:
            targets = {lane.target: self._shared for lane in LANES}
            one["files"] = dict(one["files"].items() & {**self._tests, **targets}.items())
            one["failed"] = standing(one["failed"], one["files"])

    def due(self, lane: Lane, number: int) -> dict[str, str]:
        """Return the digests of the files of a lane that this run of it still has to see."""
        done = [one for one in self.runs if (one["lane"], one["number"]) == (lane.name, number)]
        seen = {path for one in done for path in one["files"]}
        folders = tuple(f"{folder}/" for folder in lane.tests)
        of = {path: one for path, one in self._tests.items() if path.startswith(folders)}
        if not lane.tests:
            of = {lane.target: self._shared}
        return {path: one for path, one in of.items() if path not in seen}

    def add(self, entry: Entry) -> None:
        """Keep a run."""
        with self._lock:
            self.runs.append(entry)
            KEPT.write_text(json.dumps({"shared": self._shared, "runs": self.runs}))


def main(lanes: list[Lane], times: int, times_with_nodes: int) -> int:
    """Run what is not run yet; return 0 where nothing has ever failed."""
    kept = Kept()

    def half(of: list[Lane], times: int) -> None:
        for number in range(times):
            for lane in of:
                if (lane.tests or lane.nodes) and (files := kept.due(lane, number)):
                    kept.add(_run(lane, number, files))

    other, nodes = halves(lanes)
    with busy():
        beside = threading.Thread(target=half, args=(nodes, times_with_nodes))
        beside.start()
        half(other, times)
        beside.join()
    print("\n".join(table(kept.runs)))
    return 1 if any(one["failed"] for one in kept.runs) else 0


def _run(lane: Lane, number: int, files: dict[str, str]) -> Entry:
    """Run these files of a lane, in an order of its own."""
    seed = random.randrange(1 << 31)
    logs = CACHE / f"flaky/{number}"
    options = ["-o", "addopts=--import-mode=importlib", "-p", "randomly", f"--randomly-seed={seed}"]
    workers = lane.workers if lane.nodes else EAGER * lane.workers
    tests = lane.tests and tuple(sorted(files))
    outcome = run.lane(replace(lane, tests=tests, workers=workers), options, logs)
    print(f"run {number + 1}, seed {seed}:", run.told(outcome, logs), flush=True)
    broken = outcome.status not in (0, NOTHING)
    return {
        "lane": lane.name,
        "number": number,
        "seed": seed,
        "files": files,
        "passed": outcome.passed,
        "seconds": round(outcome.seconds),
        "failed": list(outcome.failed) or ([f"lane {lane.name}"] if broken else []),
    }


def table(runs: list[Entry]) -> list[str]:
    """Return how often each lane ran, and how often each test failed."""
    lines = [
        "| Lane | Runs | Cases a run | Seconds a run | Failures |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(one["lane"] for one in runs):
        of = [one for one in runs if one["lane"] == name]
        times = len({one["number"] for one in of})
        failures = sum(len(one["failed"]) for one in of)
        cases = max(one["passed"] for one in of)
        seconds = [one["seconds"] for one in of if one["passed"] >= 0.9 * cases]
        lines.append(
            f"| {name} | {times} | {cases} | {min(seconds)} to {max(seconds)} | {failures} |"
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
    lines = [
        f"{date.today().isoformat()}, {machine}, tree `{tree()[0][:12]}`:",
        "",
        *table(Kept().runs),
    ]
    PAGE.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2])
