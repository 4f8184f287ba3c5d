# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Text that fits: lines at the terminal's width, names at a column's, lists at a glance."""

from __future__ import annotations

import itertools
import textwrap
import typing as t
import unicodedata

NARROWEST = 20  # what an indented text has at least
FEW = 6  # so many members of a list are shown as they are


class Line(t.NamedTuple):
    """A line of the display, and what kind it is of: it decides the colour."""

    text: str
    kind: str = "plain"


def wrapped(text: str, width: int, first: str = "", indent: str = "") -> t.List[str]:
    """Return the lines of ``text`` at ``width`` columns, 0 for any; line ends stay.

    The first line begins with ``first``, all others with ``indent``.
    """
    lines: t.List[str] = []
    for line in text.split("\n"):
        start = indent if lines else first
        if not width or len(start) + len(line) <= width:
            lines.append(f"{start}{line}")
        else:
            lines += textwrap.wrap(
                line,
                max(width, len(first) + NARROWEST, len(indent) + NARROWEST),
                initial_indent=start,
                subsequent_indent=indent,
                break_on_hyphens=False,
                break_long_words=False,  # a path or a host's name can be copied
            )
    return lines


def cells(text: str) -> int:
    """Return the columns that a terminal gives to ``text``, which has no control characters."""
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
        if not unicodedata.combining(character)
    )


def fitted(text: str, width: int) -> str:
    """Return as much of ``text`` as fits into ``width`` columns."""
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[:-1]
    return f"{text}…"[: max(width, 0)]


class Names:
    """Names as a column shows them: long ones without the domain and the middle, and still told apart."""

    def __init__(self, longest: int) -> None:
        """``longest`` is the most that a shown name has, 4 at least."""
        self._longest = longest
        self._shown: t.Dict[str, str] = {}
        self._taken: t.Set[str] = set()
        self._width = 0

    def add(self, names: t.Iterable[str]) -> None:
        """Choose how names are shown that come together; what was chosen stays."""
        new = [name for name in dict.fromkeys(names) if name not in self._shown]
        domain = _domain([name for name in new if len(name) > self._longest])
        for name in new:
            label = name if len(name) <= self._longest else name[: len(name) - len(domain)]
            shown = self._shown[name] = self._choose(label)
            self._taken.add(shown)
            self._width = max(self._width, len(shown))

    def shown(self, name: str) -> str:
        """Return a name as it is shown."""
        self.add([name])
        return self._shown[name]

    def column(self, name: str) -> str:
        """Return a name with the spaces that align what follows."""
        return self.shown(name).ljust(self._width)

    def _choose(self, name: str) -> str:
        return next(
            candidate for candidate in self._candidates(name) if candidate not in self._taken
        )

    def _candidates(self, name: str) -> t.Iterator[str]:
        if len(name) <= self._longest:
            yield name
        else:
            half = self._longest // 2
            for tail in (half, *range(self._longest - 2, 0, -1)):
                yield f"{name[: self._longest - 1 - tail]}…{name[-tail:]}"
        for number in itertools.count(2):
            yield f"{name[: self._longest - 1 - len(str(number))]}…{number}"


def _domain(names: t.Sequence[str]) -> str:
    """Return the domain that names have in common, none of their first labels in it."""
    domains = [name.partition(".")[2].split(".")[::-1] for name in names]
    common = [label_set[0] for label_set in zip(*domains) if len(set(label_set)) == 1]  # noqa: B905
    return (
        "".join(f".{label_set}" for label_set in reversed(common)) if common and common[0] else ""
    )


def shortened(text: str) -> str:
    """Return a text whose long lists are cut: "install a, b, c and 38 more"."""
    return "; ".join(_short_list(part) for part in text.split("; "))


def _short_list(text: str) -> str:
    parts = text.split(", ")
    if len(parts) <= FEW:
        return text
    shown = 3
    count = len(parts[-2].split())
    behind = " ".join(["", *parts[-1].split()[count:]])
    cut = f"{', '.join(parts[:shown])} and {len(parts) - shown} more"
    whole = f"{cut}{behind}"
    return f"{cut}{')' * (whole.count('(') - whole.count(')'))}{behind}"


def span(seconds: float) -> str:
    """Return a time as people say it: "17 s", "2 min 05 s", "1 h 02 min"."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
