# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs are accepted, and their figures beside the fleet's medians, in headless Chromium."""

from __future__ import annotations

from typing import Any

from tests.support.browser import fleets
from tests.support.browser.chromium import Browser
from tests.support.browser.reports import NAMES, Open, order_by, quiet

FIGURE = "memory_gb_per_s"


def node(name: str, *values: float, **changes: Any) -> dict[str, Any]:
    """Return the answer of a node with so many GPUs that have passed, with these bandwidths of memory."""
    gpus = [fleets.gpu(at, f"{name}-{at}", "NVIDIA L40S", 45, None) for at in range(len(values))]
    accepted = [
        fleets.judged(gpu["uuid"], **{"figures": {FIGURE: value}, **changes})
        for gpu, value in zip(gpus, values, strict=True)
    ]
    return fleets.answer(gpus, accepted=tuple(accepted))


def column(page: Browser) -> dict[str, str]:
    cells = "[...document.querySelectorAll('.node > [data-label=Accepted]')]"
    texts = page.run(f"{cells}.map(one => one.textContent)")
    return dict(zip(page.run(NAMES), texts, strict=True))


def cards(page: Browser) -> list[str]:
    return list(
        page.run("[...document.querySelectorAll('.acceptance')].map(one => one.textContent)")
    )


def test_column_says_how_many_gpus_are_accepted_and_sorts_by_failures(report: Open) -> None:
    partly = node("partly", 860.0)
    partly["gpu_info"]["gpus"].append(fleets.gpu(1, "GPU-new", "NVIDIA L40S", 45, None))
    nodes = {
        "all": node("all", 860.0, 861.0),
        "failed": node("failed", 860.0, faults=("memory: 1 wrong word",), verdict="failed"),
        "never": fleets.answer([fleets.gpu(0, "GPU-0", "NVIDIA L40S", 45, None)]),
        "none": fleets.answer([]),
        "partly": partly,
    }
    page = report(nodes, fragment="#sort=accepted-down")
    assert page.run(NAMES)[0] == "failed"
    assert column(page) == {
        "all": "2 of 2",
        "failed": "1 failed",
        "never": "not tested",
        "none": "\N{EN DASH}",
        "partly": "1 of 2",
    }
    order_by(page, "accepted-up")
    assert page.run(NAMES)[-1] == "failed"
    assert quiet(page)


def test_gpu_shows_its_last_test(report: Open) -> None:
    nodes = {
        "a": node("a", 860.0, level="standard"),
        "b": node("b", 860.0, faults=("memory: 1 wrong word",), verdict="failed"),
        "c": fleets.answer(
            [fleets.gpu(0, "GPU-0", "NVIDIA L40S", 45, None)],
            accepted=(fleets.judged("GPU-0", "the driver was 1 and is 2", figures={}),),
        ),
        "d": fleets.answer([fleets.gpu(0, "GPU-0", "NVIDIA L40S", 45, None)]),
    }
    page = report(nodes, fragment="#sort=name-up&open=a&open=b&open=c&open=d")
    assert cards(page) == [
        "accepted at level standard, 2026-11-22 04:00 UTCmemory_gb_per_s860no median",
        "failed at level quick, 2026-11-22 04:00 UTCmemory: 1 wrong wordmemory_gb_per_s860no median",
        "not accepted: the driver was 1 and is 2 (passed at level quick, 2026-11-22 04:00 UTC)",
        "not tested",
    ]


def test_figure_is_drawn_beside_the_median_of_its_kind(report: Open) -> None:
    nodes = {f"n{at}": node(f"n{at}", 855.0, 860.0, 865.0) for at in range(3)}
    nodes["slow"] = node("slow", 817.0)
    nodes["taken"] = node("taken", 1e11)
    page = report(nodes, fragment="#sort=name-up&open=n0&open=slow&open=taken")
    plots = "[...document.querySelectorAll('.figures svg')]"
    assert page.run(f"{plots}.map(one => one.getAttribute('aria-label'))") == [
        f"{FIGURE}: 855 is \N{MINUS SIGN}0.6 % of the median 860 of 11 GPUs; slow below 838.5",
        f"{FIGURE}: 860 is +0.0 % of the median 860 of 11 GPUs; slow below 838.5",
        f"{FIGURE}: 865 is +0.6 % of the median 860 of 11 GPUs; slow below 838.5",
        f"{FIGURE}: 817 is \N{MINUS SIGN}5.0 % of the median 860 of 11 GPUs; slow below 838.5",
        f"{FIGURE}: 100000000000 is +11627906876.7 % of the median 860 of 11 GPUs; slow below 838.5",
    ]
    marks = page.run(
        f"{plots}.map(one => {{ const [mark, box] = [one.lastChild, one].map(e => e.getBoundingClientRect());"
        " return [one.lastChild.tagName, (mark.x + mark.width / 2 - box.x) / box.width]; })"
    )
    kinds = [kind for kind, _at in marks]
    places = [at for _kind, at in marks]
    assert kinds == ["circle", "circle", "circle", "rect", "circle"]
    assert places[0] < places[1] < places[2]
    assert abs(places[1] - 0.5) < 0.01
    assert places[3] < 0.2
    assert places[4] < 1.02  # it stays in its plot
    assert quiet(page)


def test_times_that_no_calendar_has_break_nothing(report: Open) -> None:
    gpu = fleets.gpu(0, "GPU-0", "NVIDIA L40S", 45, None)
    answer = fleets.answer([gpu], cases={"GPU-0": fleets.repair()})
    answer["status"]["cases"][0]["since"] = 10**20
    page = report({"taken": answer}, fragment="#open=taken")
    assert "since 9999-12-31 23:59 UTC" in page.run("document.querySelector('.cards').textContent")
    assert quiet(page)
