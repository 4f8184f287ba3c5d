# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A view of a report's page that is sent to somebody, and the names that are copied from it."""

from __future__ import annotations

import pytest

from tests.support.browser import fleets
from tests.support.browser.chromium import Browser
from tests.support.browser.reports import NAMES, Open, click, quiet, search

VIEW = "[...new URLSearchParams(location.hash.slice(1))].map(pair => pair.join('='))"


def test_a_view_has_an_address(report: Open) -> None:
    nodes = dict(fleets.fleet(40))
    page = report(nodes)
    assert page.run("location.hash") == ""
    click(page, "[data-filter=used]")
    search(page, "hall-1 H100")
    click(page, ".c-driver button")
    click(page, ".open")
    names = page.run(NAMES)
    assert len(names) > 1
    filled = ["filter=used", "find=hall-1 H100", "sort=driver-up", f"open={names[0]}"]
    assert page.run(VIEW) == filled
    fragment = page.run("location.hash")

    page = report(nodes, fragment=fragment)
    assert page.run(NAMES) == names
    assert page.run("document.getElementById('search').value") == "hall-1 H100"
    assert page.run("document.querySelector('[data-filter=used]').ariaPressed") == "true"
    assert page.run("document.querySelector('.c-driver').getAttribute('aria-sort')") == "ascending"
    assert page.run("document.querySelector('.open').ariaExpanded") == "true"
    page.run("location.hash = '#filter=absent'")
    page.until("document.querySelector('[data-filter=absent]').ariaPressed == 'true'")
    assert page.run("document.querySelectorAll('.details:not([hidden])').length") == 0
    assert page.run("document.getElementById('search').value") == ""
    assert quiet(page)


def test_the_link_to_the_table_is_no_view(report: Open) -> None:
    page = report(dict(fleets.fleet(24)), fragment="#filter=absent")
    page.run(
        "addEventListener('hashchange', () => { document.title = 'went' }); location.hash = '#nodes'"
    )
    page.until("document.title == 'went'")
    assert page.run("document.querySelector('[data-filter=absent]').ariaPressed") == "true"


def test_an_open_node_far_below_is_scrolled_to(report: Open) -> None:
    nodes = {f"n{at}": fleets.answer([]) for at in range(300)}
    page = report(nodes, fragment="#open=n250")
    top = page.run(
        "document.querySelector('.open[aria-expanded=true]').getBoundingClientRect().top"
    )
    assert 30 < top < 900, "below the heading that stays"


@pytest.mark.parametrize(
    "fragment",
    ["#filter=constructor&sort=__proto__-up", "#find=%3Cimg%20src%3Dx%3E", "#open=%00&x=%ff", "#="],
)
def test_an_address_of_somebody_else_does_no_harm(report: Open, fragment: str) -> None:
    page = report(dict(fleets.fleet(3)), fragment=fragment)
    assert page.run("document.images.length") == 0
    assert page.run("document.querySelectorAll('.tile[aria-pressed=true]').length") == 1
    assert quiet(page)


def copied(page: Browser) -> str:
    """Press the button, and return what it copies."""
    page.run(
        "Object.defineProperty(navigator, 'clipboard', {configurable: true, value:"
        " {writeText: async text => { document.title = text; }}})"
    )
    click(page, "#copy")
    return str(page.until("document.title.startsWith('--limit') && document.title"))


def test_shown_names_are_copied_as_a_limit(report: Open) -> None:
    nodes = {"a": fleets.answer([]), "b": {"unreachable": True}, "c": {"unreachable": True}}
    page = report(nodes)
    click(page, "[data-filter=absent]")
    assert copied(page) == "--limit b,c"
    page.until("document.getElementById('copy').textContent == 'Copied 2 names'")
    search(page, "nobody")
    assert page.run("document.getElementById('copy').disabled")


def test_names_are_copied_without_a_clipboard_too(report: Open) -> None:
    page = report({"a": fleets.answer([])})
    page.run(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        "document.execCommand = what => { document.title = what + ' ' + getSelection(); }"
    )
    click(page, "#copy")
    page.until("document.title.startsWith('copy')")
    page.until("document.getElementById('copy').textContent == 'Copied 1 name'")
    assert page.run("!document.querySelector('textarea')")


def test_a_copied_name_is_no_command(report: Open) -> None:
    quoted = "--limit 'a'" + "\\''; touch x; '"
    assert copied(report({"a'; touch x; ": {}})) == quoted
