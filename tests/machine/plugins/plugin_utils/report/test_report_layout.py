# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How the page of a report looks in headless Chromium: on each screen, in each scheme, and printed."""

from __future__ import annotations

import base64
import json

import pytest

from tests.support.browser import fleets
from tests.support.browser.chromium import Browser
from tests.support.browser.reports import NAMES, Open, click, order_by, style


def test_light_and_dark_by_wish_and_by_switch(report: Open) -> None:
    page = report(dict(fleets.fleet(2)))
    light = style(page, "body", "backgroundColor")
    page.media(scheme="dark")
    dark = style(page, "body", "backgroundColor")
    assert light != dark
    click(page, "#theme")
    assert style(page, "body", "backgroundColor") == light
    click(page, "#theme")
    page.media(scheme="light")
    assert style(page, "body", "backgroundColor") == dark
    click(page, "#theme")
    assert style(page, "body", "backgroundColor") == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out(report: Open, scheme: str) -> None:
    """By the contrast that WCAG 2 asks for: 4.5, and 3 for what is no text."""
    page = report(dict(fleets.fleet(2)))
    page.media(scheme=scheme)
    least = {
        ("--text", "--card"): 7,
        ("--soft", "--page"): 4.5,
        ("--soft", "--card"): 4.5,
        ("--soft", "--raised"): 4.5,
        ("--used-text", "--used"): 4.5,
        ("--text", "--idle"): 4.5,
        ("--warn", "--card"): 3,
        ("--bad", "--card"): 3,
        ("--good", "--card"): 3,
        ("--used", "--idle"): 3,
        ("--edge", "--card"): 3,
        ("--edge", "--page"): 3,
    }
    for (one, other), expected in least.items():
        assert contrast(_color(page, one), _color(page, other)) >= expected, (one, other)


def _color(page: Browser, name: str) -> list[float]:
    found = page.run(
        "(() => { const one = document.body.appendChild(document.createElement('p'));"
        f"one.style.color = 'var({name})'; const found = getComputedStyle(one).color;"
        "one.remove(); return found.match(/[0-9.]+/g).map(Number); })()"
    )
    return [value / 255 for value in found[:3]]


def contrast(one: list[float], other: list[float]) -> float:
    def light(color: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_it_fits_a_phone(report: Open) -> None:
    page = report({**dict(fleets.fleet(6)), "a-very-long-name-" + "x" * 200: fleets.answer([])})
    page.size(360, 740, phone=True)
    click(page, "#expand")
    assert page.run("document.documentElement.scrollWidth") <= 360
    assert style(page, ".sort", "display") == "flex"
    assert style(page, ".node", "display") == "block"
    assert page.run("document.querySelector('.node').getAttribute('role')") == "row"
    order_by(page, "name-down")
    assert page.shown() == 7
    assert page.run(NAMES)[-1].startswith("a-very-long-name")


def test_a_phone_has_the_faults_first_and_a_tablet_the_table(report: Open) -> None:
    page = report(dict(fleets.fleet(24)))
    page.size(390, 844, phone=True)
    figures = page.run(
        "[...document.querySelectorAll('.tile')]"
        ".sort((a, b) => a.offsetTop - b.offsetTop || a.offsetLeft - b.offsetLeft)"
        ".map(one => one.dataset.filter)"
    )
    assert set(figures[:4]) == {"drifted", "unhealthy", "drivers", "absent"}
    assert page.run("document.querySelector('.node').getBoundingClientRect().top") < 844 * 0.6
    page.size(768, 1024)
    assert style(page, ".node", "display") == "table-row"
    assert page.run("document.documentElement.scrollWidth") <= 768
    assert cut_short(page, "Driver", "Drift", "Health", "Reboot") == []


def cut_short(page: Browser, *columns: str) -> list[str]:
    """Return the texts of these columns that do not fit into their cell."""
    cells = "[...document.querySelectorAll('.node > td > div')]"
    wide = "one.scrollWidth > one.clientWidth"
    chosen = f"{json.dumps(columns)}.includes(one.parentNode.dataset.label)"
    return list(page.run(f"{cells}.filter(one => {chosen} && {wide}).map(one => one.textContent)"))


def test_each_node_is_one_line_with_whole_words(report: Open) -> None:
    nodes = dict(fleets.fleet(24))
    nodes["b"] = fleets.answer([], drift={"mig": ["GPU 1: destroy 1g.10gb"] * 10})
    nodes["b"]["status"]["reboot"] = ["the distribution asks for it"]
    page = report(nodes)
    assert max(page.run("[...document.querySelectorAll('.node')].map(n => n.offsetHeight)")) <= 38
    columns = ("GPUs", "Layout", "In use", "Accepted", "Driver", "Drift", "Health", "Reboot")
    assert cut_short(page, *columns) == []
    tops, heights = (
        set(page.run(f"[...document.querySelectorAll('.tile')].map(one => one.{of})"))
        for of in ("offsetTop", "offsetHeight")
    )
    assert len(tops) == 1
    assert max(heights) <= 75
    assert page.run("document.querySelector('.node').getBoundingClientRect().top") <= 300


def test_long_names_are_cut_in_their_middle(report: Open) -> None:
    names = [f"very-long-gpu-node-name-in-a-rack-{at:03}.dc1.example.org" for at in range(3)]
    page = report({name: fleets.answer([]) for name in names})
    assert page.run("[...document.querySelectorAll('.open bdi')].map(one => one.title)") == names
    tail = "one.querySelector('.tail')"
    assert page.run(
        f"[...document.querySelectorAll('.open')].every(one => {tail}.scrollWidth <= {tail}.clientWidth"
        f" && {tail}.getBoundingClientRect().right <= one.closest('th').getBoundingClientRect().right)"
    )
    tails = page.run("[...document.querySelectorAll('.tail')].map(one => one.textContent)")
    assert len(set(tails)) == 3


def test_each_node_has_a_heading_and_stays_below_those_of_the_table(report: Open) -> None:
    page = report(dict(fleets.fleet(3)))
    headings = "[...document.querySelectorAll('h2')].map(one => one.textContent)"
    assert page.run(headings) == page.run(NAMES)
    held = page.run("document.getElementById('heads').getBoundingClientRect().height")
    assert page.run("parseInt(getComputedStyle(document.documentElement).scrollPaddingTop)") >= held


def test_it_prints_light_and_without_controls(report: Open) -> None:
    long = "very-long-gpu-node-name-in-a-rack-7.dc1.example.org"
    page = report({**dict(fleets.fleet(30)), long: fleets.answer([])})
    page.media("print", "dark")
    assert style(page, ".tools", "display") == "none"
    assert style(page, "body", "backgroundColor") == "rgb(255, 255, 255)"
    page.size(718, 1047)  # A4 in portrait, within its margins
    assert style(page, ".node", "display") == "table-row"
    assert style(page, "#nodes > thead", "position") == "static"
    assert cut_short(page, "GPUs", "Driver", "Drift", "Health", "Reboot") == []
    heads = "[...document.querySelectorAll('.head')]"
    assert page.run(f"{heads}.every(one => getComputedStyle(one).display == 'inline')"), "whole"
    page.media()
    data = page.ask("Page.printToPDF", printBackground=True, landscape=True)["data"]
    assert base64.b64decode(data).startswith(b"%PDF-")
