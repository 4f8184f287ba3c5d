# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Make the pictures of docs/operations/report.md from a fleet that is made up, as they are named here."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from ansible_collections.gpu.node.plugins.filter.fleet_report import fleet_report

from tests.support.browser import fleets
from tests.support.browser.chromium import Browser

NODES: Final = 24
MOST: Final = 200_000  # bytes of a picture
OPEN: Final = "document.querySelectorAll('.open')[{}].click()"
DETAILS: Final = "document.querySelectorAll('.node')[3].scrollIntoView()"


class Picture(NamedTuple):
    """A picture: its size in pixels, the scheme of colours, and what is done before it is taken."""

    name: str
    width: int
    height: int
    scheme: str
    before: str = "0"


PICTURES: Final = (
    Picture("report-overview", 1280, 860, "light"),
    Picture("report-details", 1280, 900, "dark", f"{OPEN.format(3)}; {DETAILS}"),
    Picture("report-phone", 390, 844, "light", OPEN.format(3)),
)


def main(folder: Path) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes = dict(fleets.fleet(NODES))
    known = {name: {"looked": one} for name, one in nodes.items()}
    with tempfile.TemporaryDirectory() as profile:
        page = Path(profile) / "report.html"
        page.write_text(fleet_report(list(nodes), known, "looked", made=fleets.MADE))
        browser = Browser(Path(profile))
        for one in PICTURES:
            take(browser, page, one, folder / f"{one.name}.png")
        browser.close()


def take(browser: Browser, page: Path, one: Picture, path: Path) -> None:
    """Take one picture. SystemExit: it is too large to be kept with the source."""
    browser.size(one.width, one.height, phone=one.width < 600)
    browser.media(scheme=one.scheme)
    browser.open(page)
    browser.run(one.before)
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    browser.screenshot(path)
    if path.stat().st_size > MOST:
        raise SystemExit(f"{path}: {path.stat().st_size} bytes, and {MOST} at most")
    print(f"{path} {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
