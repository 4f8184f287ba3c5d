# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A browser, and reports that are opened in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.filter.fleet_report import fleet_report

from tests.support.browser import fleets
from tests.support.browser.chromium import Browser
from tests.support.browser.reports import Open


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    one = Browser(tmp_path_factory.mktemp("profile"))
    yield one
    one.close()


@pytest.fixture
def report(browser: Browser, tmp_path: Path) -> Open:
    """Return a function that opens a report on nodes, on a wide screen."""

    def opened(nodes: dict[str, Any], title: str = "GPU nodes", fragment: str = "") -> Browser:
        known = {name: {"looked": one} for name, one in nodes.items()}
        path = tmp_path / "report.html"
        path.write_text(fleet_report(list(nodes), known, "looked", title=title, made=fleets.MADE))
        browser.media()
        browser.size(1280, 900)
        browser.open(path, fragment)
        return browser

    return opened
