# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page of a report as people use it, in headless Chromium."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.text.json_data import NOT_UNDERSTOOD
from ansible_collections.gpu.node.plugins.module_utils._repair.case import RELEASED

from tests.support.browser import fleets, wrong
from tests.support.browser.reports import NAMES, Open, click, order_by, quiet, search, tile


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


def test_a_gpu_in_repair_is_found_with_what_was_tried_and_what_comes_next(report: Open) -> None:
    gpu = fleets.gpu(0, wrong.WHOLE, "NVIDIA H100", 80, None)
    nodes = {
        "fine": fleets.answer([gpu]),
        "sick": fleets.answer([gpu], cases={wrong.WHOLE: fleets.repair()}),
        "repaired": fleets.answer([gpu], cases={wrong.WHOLE: fleets.repair(stage=RELEASED)}),
    }
    page = report({"fine": nodes["fine"]})
    assert not page.run("!!document.querySelector('[data-filter=repair]')")
    assert page.run("document.getElementById('repairs').hidden")
    page = report(nodes, fragment="#open=sick&open=repaired")
    assert page.run(NAMES) == ["sick", "fine", "repaired"]
    assert tile(page, "repair")[:3] == ["1", "In repair", "1 GPU"]
    said = page.run(
        "[...document.querySelectorAll('.cards section')].map(one => one.textContent)"
        ".filter(one => one.startsWith('Repairs'))"
    )
    assert said == [
        "RepairsGPU 0: replace · serial 1651023000042, 0000:07:00.0"
        "since 2026-11-22 04:00 UTC, failed"
        "XID 79: the GPU has fallen off the bus"
        "it was reset and rebooted for within a day"
        "reset at 2026-11-22 04:10 UTC: done"
        "reboot at 2026-11-22 05:10 UTC: the GPU does not answer"
        "evidence: /var/lib/gpu-node/evidence/c.before.8c1f0e52.20261122T034000Z.tar.gz"
        "Next step: have it replaced: the evidence goes to the vendor, in the file of "
        "gpu.node.gpu_evidence with stage: rma"
    ]
    counts = "[...document.querySelectorAll('#repaired td')].map(one => one.textContent)"
    assert page.run(counts) == ["NVIDIA H100", "580.178.04", "3", "2", "1", "2", "2"]
    click(page, "[data-filter=repair]")
    assert page.run(NAMES) == ["sick"]
    assert search(page, "1651023000042") == ["sick"]
    assert quiet(page)


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
    assert "the node is in the middle of mig by root on <b>ctl" in text
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
    said = page.run(
        "[...document.querySelectorAll('[data-label=Health] [title]')].map(one => one.title)"
    )
    assert set(said) == {NOT_UNDERSTOOD}
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
