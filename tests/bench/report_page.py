# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How long a report takes to write, to open in headless Chromium and to filter, by the number of its nodes."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from ansible_collections.gpu.node.plugins.filter.fleet_report import fleet_report

from tests.support.browser import fleets
from tests.support.browser.chromium import Browser

SIZES = (10, 100, 1000)
ROUNDS = 5
# When the first rows are there, and when all are, in milliseconds since the page was asked for.
WATCH = """
new MutationObserver(() => {
  if (!window.first && document.querySelector('tr.node')) window.first = performance.now();
  if (!window.all && document.documentElement.dataset.shown) window.all = performance.now();
}).observe(document, {subtree: true, childList: true, attributes: true});
"""
FILTER = """new Promise(done => {
  const begun = performance.now();
  document.querySelector('[data-filter=drifted]').click();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
})"""


def written(count: int, path: Path) -> float:
    """Write a page, and return how much time of a processor that took in milliseconds."""
    nodes: dict[str, Any] = dict(fleets.fleet(count))
    known = {name: {"looked": one} for name, one in nodes.items()}
    times = []
    for _round in range(ROUNDS):
        begun = time.process_time()
        path.write_text(fleet_report(list(nodes), known, "looked", made=fleets.MADE))
        times.append(1000 * (time.process_time() - begun))
    return statistics.median(times)


def main() -> None:
    """Print a row for each size, with the median of some rounds."""
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder))
        browser.size(1280, 900)
        browser.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        rows = [row(browser, count, Path(folder) / "report.html") for count in SIZES]
        browser.close()
    print("nodes  bytes     written  first rows  all rows  filtered  (ms)")
    for count, size, *times in rows:
        print(f"{count:5}  {size:8}" + "".join(f"  {one:8.0f}" for one in times))
    (_count, _size, write_few, *_few), (_more, _bytes, write_many, _first, shown, *_rest) = rows[1:]
    print(f"written per node, {SIZES[2]} to {SIZES[1]}: {write_many / write_few / 10:.2f}")
    print(f"all of {SIZES[2]} nodes shown in {shown / 2000:.2f} of 2 s")


def row(browser: Browser, count: int, path: Path) -> tuple[float, ...]:
    """Return how many nodes and bytes there are, and the times."""
    writing = written(count, path)
    times = []
    for _round in range(ROUNDS):
        browser.open(path)
        found = [browser.run("window.first"), browser.run("window.all")]
        times.append([*found, browser.run(FILTER)])
    medians = [statistics.median(each) for each in zip(*times, strict=True)]
    return (count, path.stat().st_size, writing, *medians)


if __name__ == "__main__":
    main()
