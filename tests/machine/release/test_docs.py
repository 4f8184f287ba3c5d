# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What `make docs` builds: a page for everything, and no link that leads nowhere."""

from __future__ import annotations

import subprocess
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.environments.needed import made
from tests.support.paths import REPOSITORY

KINDS = {"modules": "module", "filter": "filter", "lookup": "lookup", "callback": "callback"}


class Page(HTMLParser):
    """The anchors of a page, and where its links lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors = {"", "top"}
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def broken(site: Path) -> list[str]:
    """Return the links within a site that lead nowhere."""
    pages = {path: Page(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            target = (
                (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            )
            anchors = pages[target].anchors if target in pages else {""}
            if not target.is_file() or urllib.parse.unquote(parts.fragment) not in anchors:
                found.append(f"{path.name}: {link}")
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site. It is built with warnings as errors, after antsibull-docs has found nothing to complain of."""
    made("release")
    folder = tmp_path_factory.mktemp("docs")
    words = [REPOSITORY / "tests/docs/site/build", folder]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.mark.long
def test_every_module_plugin_and_role_has_a_page(site: Path) -> None:
    wanted = {
        f"{path.stem}_{kind}.html"
        for folder, kind in KINDS.items()
        for path in (REPOSITORY / "plugins" / folder).glob("*.py")
        if path.stem != "__init__"
    }
    wanted |= {
        f"{path.parents[1].name}_role.html"
        for path in (REPOSITORY / "roles").glob("*/meta/argument_specs.yml")
    }
    assert wanted <= {path.name for path in site.glob("*.html")}
    index = (site / "index.html").read_text()
    assert [one for one in sorted(wanted) if f'href="{one}' not in index] == []


@pytest.mark.long
def test_every_link_of_the_pages_leads_somewhere(site: Path) -> None:
    assert broken(site) == []
    assert sum(len(Page(path).links) for path in site.glob("*.html")) > 1000


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"><a href="#here"/><a href="b.html#there"/>')
    (tmp_path / "b.html").write_text('<a href="a.html#here"/><a href="c.html"/><img src="d.png">')
    assert sorted(broken(tmp_path)) == ["a.html: b.html#there", "b.html: c.html", "b.html: d.png"]
