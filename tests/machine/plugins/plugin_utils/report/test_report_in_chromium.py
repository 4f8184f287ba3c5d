# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page of a report as people use it, in headless Chromium."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.filter.fleet_report import fleet_report

from tests.support.browser import fleets, wrong
from tests.support.browser.chromium import Browser

NAMES = "[...document.querySelectorAll('.node .open')].map(one => one.textContent)"
Open = Callable[[dict[str, Any]], Browser]


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


def click(browser: Browser, selector: str) -> None:
    browser.run(f"document.querySelector({json.dumps(selector)}).click()")
    browser.shown()


def search(browser: Browser, text: str) -> list[str]:
    """Type into the filter, and return the names that are left once it was applied."""
    browser.run(
        "delete document.documentElement.dataset.shown;"
        f"const field = document.getElementById('search'); field.value = {json.dumps(text)};"
        "field.dispatchEvent(new Event('input'))".replace("const field", "var field")
    )
    browser.shown()
    return list(browser.run(NAMES))


def style(browser: Browser, selector: str, name: str) -> str:
    found = f"getComputedStyle(document.querySelector({json.dumps(selector)})).{name}"
    return str(browser.run(found))


def quiet(browser: Browser) -> bool:
    """Tell whether no script failed, nothing was refused, and nothing but the file was asked for."""
    asked = [one["request"]["url"] for one in browser.named("Network.requestWillBeSent")]
    wrong = browser.named("Runtime.exceptionThrown") + browser.named("Log.entryAdded")
    assert not wrong
    return [one.partition(":")[0] for one in asked] == ["file"]


def test_columns_are_sorted_by_their_headings(report: Open) -> None:
    page = report(dict(fleets.fleet(40)))
    click(page, ".c-name button")
    assert page.run(NAMES) == sorted(name for name, _answer in fleets.fleet(40))
    assert page.run("document.querySelector('.c-name').getAttribute('aria-sort')") == "ascending"
    click(page, ".c-name button")
    assert page.run(NAMES) == sorted((name for name, _answer in fleets.fleet(40)), reverse=True)
    assert page.run("document.querySelector('.c-name').getAttribute('aria-sort')") == "descending"
    click(page, ".c-drift button")
    marks = page.run(
        "[...document.querySelectorAll('.node')].map(one => !!one.querySelector('[data-label=Drift] .warnmark'))"
    )
    assert marks == sorted(marks, reverse=True)
    assert any(marks)
    assert not page.run("document.querySelector('.c-name').hasAttribute('aria-sort')")
    assert quiet(page)


def test_what_wants_a_hand_comes_first(report: Open) -> None:
    nodes = {
        "a-fine": fleets.answer([]),
        "b-drifted": fleets.answer([], drift={"mig": ["GPU 1: destroy 1g.10gb"]}),
        "c-vulnerable": fleets.answer([], "580.95.05"),
        "d-unsupported": fleets.answer([], "550.163.01"),
        "e-unhealthy": fleets.answer([], faults=(fleets.fault("GPU-0", 0, "XID 79", 79),)),
        "f-refused": {"failed": True, "msg": "plan: no"},
        "g-away": {"unreachable": True, "msg": "timed out"},
    }
    page = report(nodes)
    wanted = ["f-refused", "g-away", "e-unhealthy", "c-vulnerable", "d-unsupported", "b-drifted"]
    assert page.run(NAMES) == [*wanted, "a-fine"]
    click(page, ".c-name button")
    assert page.run(NAMES) == list(nodes)
    order_by(page, "faults-down")
    assert page.run(NAMES) == [*wanted, "a-fine"]


def order_by(page: Browser, order: str) -> None:
    page.run(
        f"document.getElementById('sort').value = '{order}';"
        "document.getElementById('sort').dispatchEvent(new Event('change'))"
    )
    page.shown()


def tile(page: Browser, key: str) -> list[str]:
    """Return the texts of a figure, and its mark."""
    of = f"document.querySelector('[data-filter={key}]')"
    texts = page.run(f"[...{of}.children].map(one => one.textContent)")
    return [*texts, page.run(f"getComputedStyle({of}.querySelector('b'), '::after').content")]


def test_drivers_to_update_are_those_without_support_and_those_below_a_fix(report: Open) -> None:
    nodes = {"below": fleets.answer([], "580.95.05"), "good": fleets.answer([])}
    count, label, note, mark = tile(report(nodes), "drivers")
    assert (count, label, note) == ("1", "Drivers to update", "0 unsupported, 1 below a fix")
    assert "▲" in mark
    nodes["ended"] = fleets.answer([], "550.163.01")
    page = report(nodes)
    assert tile(page, "drivers")[:3] == ["2", "Drivers to update", "1 unsupported, 2 below a fix"]
    click(page, "[data-filter=drivers]")
    assert page.run(NAMES) == ["below", "ended"], "as many as the figure says"
    said = page.run(
        "[...document.querySelectorAll('[data-label=Driver] [title]')].map(one => one.title)"
    )
    assert said[0].endswith("fixed in 580.178.04")
    assert said[1].startswith("unsupported; no fix in branch 550 for bulletin 5670, ")
    del nodes["below"], nodes["ended"]
    assert tile(report(nodes), "drivers") == ["0", "Drivers to update", "", "none"]


def test_names_are_sorted_by_their_numbers(report: Open) -> None:
    nodes = {f"gpu{number}": fleets.answer([]) for number in (10, 9, 100)}
    assert report(nodes).run(NAMES) == ["gpu9", "gpu10", "gpu100"]


def test_figures_and_words_filter(report: Open) -> None:
    nodes = dict(fleets.fleet(40))
    page = report(nodes)
    click(page, "[data-filter=absent]")
    away = [name for name, one in nodes.items() if "status" not in one]
    assert sorted(page.run(NAMES)) == sorted(away)
    assert page.run("document.getElementById('count').textContent") == f"{len(away)} of 40 nodes"
    assert page.run("document.querySelector('[data-filter=absent]').ariaPressed") == "true"
    click(page, "[data-filter=absent]")
    assert len(page.run(NAMES)) == 40
    hall = search(page, "ZONE=hall-2 a100")
    assert 0 < len(hall) < 40
    assert search(page, "no such thing") == []
    assert page.run("document.getElementById('nothing').hidden") is False
    assert len(search(page, "")) == 40
    assert len(search(page, "train-llm-2-0")) == 1, "pods are found"


def test_nodes_in_a_change_are_found_where_there_are_any(report: Open) -> None:
    nodes = {"a": fleets.answer([]), "b": fleets.answer([])}
    assert not report(nodes).run("!!document.querySelector('[data-filter=changing]')")
    nodes["b"]["gpu_info"]["change"] = {"change": "mig", "host": "<b>ctl", "user": "root"}
    page = report(nodes)
    click(page, "[data-filter=changing]")
    assert page.run(NAMES) == ["b"]
    click(page, ".open")
    text = page.run("document.querySelector('.details').textContent")
    assert "the node stands in the middle of mig by root on <b>ctl" in text
    assert "Next step: run gpu.node.mig to its end" in text
    assert quiet(page)


def test_details_show_the_grid_and_who_uses_it(report: Open) -> None:
    page = report(dict(fleets.fleet(4)))
    order_by(page, "name-up")
    click(page, ".open")
    assert page.run("document.querySelector('.open').ariaExpanded") == "true"
    cells = page.run(
        "[...document.querySelectorAll('.gpu:nth-child(1) .grid li')].map(one => [one.className, one.title])"
    )
    assert [kind for kind, _title in cells] == ["idle", "used", "used", "none"]
    assert cells[1][1] == "2g.20gb, placement 4:2, in use"
    assert page.run("document.querySelectorAll('.grid li .state')[1].textContent") == "in use"
    assert page.run("document.querySelector('.details').textContent.includes('notebooks/')")
    widths = page.run(
        "[...document.querySelectorAll('.gpu:nth-child(1) .grid li')].map(one => one.offsetWidth)"
    )
    assert widths[0] > 1.8 * widths[1] > 3 * widths[2], "cells are as wide as instances are large"
    click(page, ".open")
    assert page.run("document.querySelector('.details').hidden")
    click(page, "#expand")
    assert page.run("document.querySelectorAll('.details:not([hidden])').length") == 4
    assert quiet(page)


def test_what_nobody_could_tell_does_not_look_free(report: Open) -> None:
    answer = fleets.answer([fleets.gpu(0, "GPU-0", "NVIDIA L40S", 45, None)])
    answer["status"]["allocations_unknown"] = "the kubelet does not answer"
    page = report({"n": answer})
    assert page.run("document.querySelector('.mini s').className") == "unknown"
    assert page.run("document.querySelector('[data-label=\"In use\"]').textContent") == (
        "at least 0 of 1"
    )
    click(page, ".open")
    said = page.run("document.querySelector('.details').textContent")
    assert "not known whether in use" in said
    assert "Not known which pods have GPUs: the kubelet does not answer" in said
    assert "free" not in said


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
    assert cut_short(page, "GPUs", "Layout", "In use", "Driver", "Drift", "Health", "Reboot") == []
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


def test_details_of_many_nodes_are_not_opened_at_once(report: Open) -> None:
    page = report({f"n{at}": fleets.answer([]) for at in range(101)})
    assert page.run("document.getElementById('expand').disabled")
    assert page.run("document.getElementById('expand').textContent") == "Show details of up to 100"
    search(page, "n1")
    assert page.run("document.getElementById('expand').textContent") == "Show all details"
    click(page, "#expand")
    assert page.run("document.querySelectorAll('.details:not([hidden])').length") == 12
    search(page, "")
    click(page, "#expand")
    assert page.run("document.querySelectorAll('.details:not([hidden])').length") == 0


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


def test_each_node_has_a_heading_and_stays_below_those_of_the_table(report: Open) -> None:
    page = report(dict(fleets.fleet(3)))
    headings = "[...document.querySelectorAll('h2')].map(one => one.textContent)"
    assert page.run(headings) == page.run(NAMES)
    held = page.run("document.getElementById('heads').getBoundingClientRect().height")
    assert page.run("parseInt(getComputedStyle(document.documentElement).scrollPaddingTop)") >= held


def test_it_prints_light_and_without_controls(report: Open) -> None:
    page = report(dict(fleets.fleet(30)))
    page.media("print", "dark")
    assert style(page, ".tools", "display") == "none"
    assert style(page, "body", "backgroundColor") == "rgb(255, 255, 255)"
    page.size(794, 1123)  # A4 in portrait
    assert style(page, ".node", "display") == "table-row"
    assert style(page, "#nodes > thead", "position") == "static"
    page.media()
    data = page.ask("Page.printToPDF", printBackground=True, landscape=True)["data"]
    assert base64.b64decode(data).startswith(b"%PDF-")


def test_a_keyboard_is_enough(report: Open) -> None:
    page = report(dict(fleets.fleet(3)))
    reached = []
    for _press in range(30):
        page.key("Tab")
        reached.append(page.run("document.activeElement.id || document.activeElement.className"))
        if reached[-1] == "open":
            break
    assert {"skip", "theme", "search", "expand", "open"} <= set(reached)
    page.key("Enter", "\r")
    assert page.run("document.activeElement.ariaExpanded") == "true"
    roles = page.run(
        "['table', 'row', 'columnheader', 'rowheader', 'cell']"
        ".map(role => document.querySelectorAll(`[role=${role}]`).length > 0)"
    )
    assert all(roles)
    tree = page.ask("Accessibility.getFullAXTree")["nodes"]
    names = {
        one["name"]["value"] for one in tree if one.get("role", {}).get("value") == "columnheader"
    }
    assert {"Node", "GPUs", "Driver", "Drift", "Health"} <= names


HOSTILE = [
    "</script><script>hit=1</script>",
    "<img src=x onerror=hit=1>",
    "\"'><svg onload=hit=1>",
    "${hit=1}",
    "{{ hit }}",
    "line\u2028separator\u2029",
    "a\u202egpj.exe",
    "\x00\x1b[31m",
    "__proto__",
    "x" * 5000,
]


def test_hostile_texts_run_no_script_and_are_shown_as_they_are(report: Open) -> None:
    nodes: dict[str, Any] = {}
    for number, text in enumerate(HOSTILE):
        gpu = fleets.gpu(0, "GPU-0", text, 80, (("3g.40gb", 0),))
        gpu["gpu_instances"][0]["profile"] = text
        process = {"pid": 1, "name": text, "gpu_uuid": "GPU-0", "gi_id": 1, "ci_id": 0}
        gpu["processes"] = [process]
        fault = fleets.fault("GPU-0", 0, text, None)
        nodes[f"{number} {text}"] = fleets.answer(
            [gpu], text, drift={"mig": [text]}, faults=(fault,), reboot=(text,), labels={text: text}
        )
        nodes[f"failed {number}"] = {"failed": True, "msg": text}
    page = report(nodes, title="".join(HOSTILE[:6]))
    click(page, "#expand")
    assert page.run("typeof hit") == "undefined"
    assert page.run("document.images.length + document.querySelectorAll('svg').length") == 0
    assert page.run("document.scripts.length") == 2
    assert page.run("Object.prototype.hasOwnProperty.call(Object.prototype, 'hit')") is False
    names = page.run(NAMES)
    assert [one for one in names if "<img src=x onerror=hit=1>" in one]
    assert [one for one in names if "a\\u202egpj.exe" in one]
    assert page.run("document.documentElement.scrollWidth") <= 1280
    assert quiet(page)


def test_answers_of_another_shape_break_nothing(report: Open) -> None:
    good = wrong.whole()
    places = [one for one in wrong.places(good) if "cis" not in one]
    values: list[Any] = [None, 7, "x", [], {}, 3_000_000]
    nodes = {
        f"{at}": wrong.changed(good, place, values[at % len(values)])
        for at, place in enumerate(places[:: len(places) // 98 + 1])
    }
    page = report({**nodes, "good": good})
    click(page, "#expand")
    assert page.run("document.querySelectorAll('.details').length") == len(nodes) + 1
    assert page.run("document.querySelectorAll('.grid li').length") < 9 * 2 * (len(nodes) + 1)
    assert quiet(page)


def test_the_policy_stops_what_would_get_in_all_the_same(report: Open) -> None:
    page = report(dict(fleets.fleet(1)))
    page.run(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'hit=1'}));"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=hit=1>');"
    )
    page.run("new Promise(done => setTimeout(done, 100))")
    assert page.run("typeof hit") == "undefined"
    assert page.run("fetch('http://127.0.0.1:9/').then(() => 'went out', () => 'refused')") == (
        "refused"
    )


def test_a_fleet_of_none_has_a_page(report: Open) -> None:
    page = report({})
    assert page.run("document.getElementById('nothing').hidden") is False
    assert quiet(page)
