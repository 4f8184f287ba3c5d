# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A table, and a picture of four small charts."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .measure import Cost

COLUMNS: tuple[tuple[str, Callable[[Cost], str]], ...] = (
    ("nodes", lambda one: f"{one.nodes}"),
    ("CPU a node, s", lambda one: f"{one.per_node('processor'):.2f}"),
    ("in one process, s", lambda one: f"{one.per_node('first'):.2f}"),
    ("memory, MiB", lambda one: f"{one.memory:.0f}"),
    ("wall, s", lambda one: f"{one.wall:.1f}"),
    ("wall a node, s", lambda one: f"{one.per_node('wall'):.2f}"),
    ("sent a node, KiB", lambda one: f"{one.per_node('sent') / 1024:.0f}"),
    ("received a node, KiB", lambda one: f"{one.per_node('received') / 1024:.0f}"),
    ("commands a node", lambda one: f"{one.per_node('calls'):.0f}"),
)
CHARTS: tuple[tuple[str, Callable[[Cost], float]], ...] = (
    ("Controller CPU a node, s", lambda one: one.per_node("processor")),
    ("Wall time a node, s", lambda one: one.per_node("wall")),
    ("Controller memory, MiB", lambda one: one.memory),
    ("Sent to a node, KiB", lambda one: one.per_node("sent") / 1024),
)
COLOURS = ("#1f6feb", "#d1791c")
WIDTH, HEIGHT, EDGE = 350, 230, 48
Series = Mapping[str, Sequence[Cost]]


def table(costs: Sequence[Cost]) -> list[str]:
    """Return the head and a line for each size."""
    head = " | ".join(name for name, _show in COLUMNS)
    return [
        head,
        *(" | ".join(f"{show(one):>{len(name)}}" for name, show in COLUMNS) for one in costs),
    ]


def write(path: Path, found: Series) -> None:
    """Write the picture; sizes stand side by side, at equal distances."""
    places = [(number % 2 * WIDTH, 30 + number // 2 * HEIGHT) for number in range(len(CHARTS))]
    charts = [
        f'<g transform="translate({x} {y})">{_chart(title, value, found)}</g>'
        for (x, y), (title, value) in zip(places, CHARTS, strict=True)
    ]
    legend = [
        f'<rect x="{20 + number * 170}" y="10" width="12" height="12" fill="{colour}"/>'
        f'<text x="{38 + number * 170}" y="20">{html.escape(name)}</text>'
        for number, (name, colour) in enumerate(zip(found, COLOURS, strict=False))
    ]
    size = f'width="{2 * WIDTH}" height="{2 * HEIGHT + 40}"'
    style = "text{font:12px sans-serif;fill:#57606a} .axis{stroke:#8c959f}"
    text = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {2 * WIDTH} {2 * HEIGHT + 40}">\n'
    text += f'<style>{style}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n".join([*legend, *charts]) + "\n</svg>\n")


def _chart(title: str, value: Callable[[Cost], float], found: Series) -> str:
    """Return a line for each series over the sizes, from zero."""
    sizes = [one.nodes for one in next(iter(found.values()))]
    top = 1.15 * max(value(one) for costs in found.values() for one in costs) or 1.0
    across = [EDGE + (WIDTH - 2 * EDGE) * (n + 0.5) / len(sizes) for n in range(len(sizes))]
    floor = HEIGHT - EDGE
    parts = [f'<text x="{EDGE}" y="16">{title}</text>']
    parts.append(f'<path class="axis" fill="none" d="M{EDGE} 24V{floor}H{WIDTH - EDGE}"/>')
    for x, size in zip(across, sizes, strict=True):
        parts.append(f'<text x="{x:.0f}" y="{floor + 16}" text-anchor="middle">{size}</text>')
    tops = [max(map(value, those)) for those in zip(*found.values(), strict=True)]
    for costs, colour in zip(found.values(), COLOURS, strict=False):
        heights = [floor - (floor - 30) * value(one) / top for one in costs]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, heights, strict=True))
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>'
        )
        for x, y, one, highest in zip(across, heights, costs, tops, strict=True):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            above = value(one) == highest
            parts.append(_label(x, y - 7 if above else y + 16, colour, _short(value(one))))
    return "".join(parts)


def _label(x: float, y: float, colour: str, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" style="fill:{colour}">{text}</text>'


def _short(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.0f}"
