# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Foreign text can't steer a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.text.shown import printable
from hypothesis import given, settings
from hypothesis import strategies as st

STEERING = ["Cc", "Cf", "Cs", "Zl", "Zp"]  # controls, directions, halves of pairs, line ends
ANYTHING = st.text(st.characters(), max_size=40)  # with surrogates, as os.fsdecode makes them


@pytest.mark.attack("terminal-escapes")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\nnode-2  ok", r"a\nnode-2  ok"),
        ("\x9b2J", r"\x9b2J"),
        ("\x7f\x00", r"\x7f\x00"),
        ("\u202egpj.exe\u2066", r"\u202egpj.exe\u2066"),
        ("half \udc9b", r"half \udc9b"),
        ("Grüße, 計算 'x' \\", "Grüße, 計算 'x' \\"),
    ],
)
def test_what_steers_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.attack("terminal-escapes")
@settings(deadline=None)
@given(ANYTHING)
def test_nothing_that_steers_is_left(text: str) -> None:
    shown = printable(text)
    assert not [one for one in shown if unicodedata.category(one) in STEERING]
    assert printable(shown) == shown
    shown.encode()  # a terminal's stream can take it


@pytest.mark.attack("terminal-escapes")
@settings(deadline=None)
@given(ANYTHING)
def test_only_what_is_named_may_stay(text: str) -> None:
    shown = printable(text, keep="\n\t")
    left = {one for one in shown if unicodedata.category(one) in STEERING}
    assert left <= {"\n", "\t"}
    assert shown.count("\n") == text.count("\n")
