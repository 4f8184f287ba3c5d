# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Text that fits."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.text.readable import would
from ansible_collections.gpu.node.plugins.plugin_utils.progress.text import (
    Names,
    cells,
    fitted,
    shortened,
    span,
    wrapped,
)
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(st.characters(blacklist_categories=("C", "Z")) | st.sampled_from(" \n"))
HOSTS = st.text("abc01.-", min_size=1, max_size=60)


@given(TEXTS, st.integers(30, 100))
def test_wrapped_lines_fit_and_hold_everything(text: str, width: int) -> None:
    lines = wrapped(text, width, "  + host  ", " " * 6)
    assert all(len(one) <= width or len(one.split()) <= 3 for one in lines)
    assert all(one.startswith(" " * 6) for one in lines[1:])
    assert "".join("".join(lines)[10:].split()) == "".join(text.split())


@given(TEXTS)
def test_without_a_width_lines_are_as_they_were(text: str) -> None:
    assert [one[2:] for one in wrapped(text, 0, "> ", "> ")] == text.split("\n")


def test_a_long_word_is_not_taken_apart() -> None:
    host = "gpu-0001." + "x" * 80 + ".example.com"
    assert host in " ".join(wrapped(f"see {host} now", 40, "", "  "))


@given(TEXTS, st.integers(0, 50))
def test_fitted_text_fits(text: str, width: int) -> None:
    assert cells(fitted(text, width)) <= width
    assert cells(text) > width or fitted(text, width) == text


def test_wide_characters_take_two_cells() -> None:
    assert [cells(one) for one in ("ab", "\u6f22\u5b57", "e\u0301")] == [2, 4, 1]


@given(st.lists(HOSTS, unique=True, max_size=30), st.integers(4, 40))
def test_names_fit_and_are_told_apart(hosts: list[str], longest: int) -> None:
    names = Names(longest)
    names.add(hosts)
    shown = [names.shown(one) for one in hosts]
    assert all(len(one) <= longest for one in shown)
    assert len(set(shown)) == len(hosts)
    assert len({len(names.column(one)) for one in hosts}) <= 1
    assert [names.shown(one) for one in hosts] == shown


def test_names_lose_their_domain_first() -> None:
    names = Names(16)
    names.add(["gpu-0001.rack-7.example.com", "gpu-0002.rack-7.example.com", "short.example"])
    assert names.shown("gpu-0001.rack-7.example.com") == "gpu-0001"
    assert names.shown("short.example") == "short.example"


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("install a, b, c", "install a, b, c"),
        ("install 1, 2, 3, 4, 5, 6, 7, 8", "install 1, 2, 3 and 5 more"),
        ("hold a, b, c, d, e, f, g at their version", "hold a, b, c and 4 more at their version"),
        ("x: add 1, 2, 3, 4, 5, 6, 7; remove 8", "x: add 1, 2, 3 and 4 more; remove 8"),
        ("remove 7 packages (a, b, c, d, e, f, g)", "remove 7 packages (a, b, c and 4 more)"),
        ("remove (a, b, c, d, e, f, g) and a file", "remove (a, b, c and 4 more) and a file"),
        (
            "get a (1), b (2), c (3), d (4), e (5), f (6), g (7)",
            "get a (1), b (2), c (3) and 4 more",
        ),
    ],
)
def test_lists_are_shortened(text: str, short: str) -> None:
    assert shortened(text) == short


@given(TEXTS)
def test_shortened_is_never_longer_and_short_lists_stay(text: str) -> None:
    assert len(shortened(text)) <= len(text)
    assert text.count(",") > 5 or shortened(text) == text


def test_a_step_says_would_of_what_is_done() -> None:
    assert would("GPU 6: destroy 1g") == "GPU 6: would destroy 1g"
    assert would("GPU 6 (GPU-0a1b): set ecc") == "GPU 6 (GPU-0a1b): would set ecc"
    assert would("/etc/cdi/nvidia.yaml: add 0:0") == "/etc/cdi/nvidia.yaml: would add 0:0"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(7.9, "7 s"), (65, "1 min 05 s"), (3725, "1 h 02 min")]
)
def test_times_are_shown_in_their_largest_units(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


def test_a_name_costs_the_same_among_few_and_among_many() -> None:
    """Ten thousand nodes have a line each for each of their tasks."""

    class Counted(str):
        __slots__ = ()

        def __hash__(self) -> int:
            looks.append(self)
            return super().__hash__()

        def __eq__(self, other: object) -> bool:
            looks.append(self)
            return super().__eq__(other)

    looks: list[str] = []

    def each(count: int) -> float:
        names, hosts = Names(16), [Counted(f"n{number:06}") for number in range(count)]
        looks.clear()
        names.add(hosts)
        assert [names.column(one) for one in hosts] == hosts
        return len(looks) / count

    assert each(6000) < 2 * each(300)
