# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Long texts that arrive in pieces: what of them is handed on, and what is not."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.text.excerpt import (
    LONGEST_LINE,
    Excerpt,
)
from hypothesis import given
from hypothesis import strategies as st

MUCH = 1 << 30
LINE = "kernel: NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus."


def kept(pieces: list[bytes], most: int = MUCH) -> tuple[str, int]:
    found = bytearray()
    excerpt = Excerpt(found.extend, most)
    for one in pieces:
        excerpt.take(one)
    excerpt.close()
    return found.decode(), excerpt.left_out


@given(st.text(alphabet="ab \n", max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_a_text_is_the_same_in_whatever_pieces_it_arrives(text: str, cuts: list[int]) -> None:
    at = sorted({0, len(text), *(one for one in cuts if one < len(text))})
    pieces = [text[one:end].encode() for one, end in itertools.pairwise(at)]
    assert kept(pieces) == (text, 0)


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_credential_is_masked_wherever_a_piece_ends(cut: int) -> None:
    data = f"{LINE}\nkernel: Command line: root=/dev/sda1 token=s3cret\n{LINE}\n".encode()
    at = data.index(b"s3cret") - 30 + cut
    text, left_out = kept([data[:at], data[at:]])
    assert "s3cret" not in text
    assert text.count(LINE) == 2
    assert not left_out


def test_a_quote_that_a_line_leaves_open_hides_nothing_of_the_next() -> None:
    text, _left_out = kept([f'audit: password="open\n{LINE}\n'.encode()])
    assert "open" not in text
    assert text.endswith(f"\n{LINE}\n")


def test_of_too_long_a_text_the_begin_and_the_end_are_there() -> None:
    lines = [f"{number:06d} {LINE}\n" for number in range(10_000)]
    text, left_out = kept([one.encode() for one in lines], most=10_000)
    assert len(text) <= 10_000 + 100
    assert text.startswith(lines[0])
    assert text.endswith(lines[-1])
    assert f"[{left_out} bytes are left out]" in text
    assert left_out == sum(map(len, lines)) - len(text) + len(f"[{left_out} bytes are left out]\n")


def test_a_line_without_an_end_takes_no_more_room_than_a_long_one() -> None:
    piece = b"x" * 10_000
    text, left_out = kept([piece] * 1_000 + [b"\n", LINE.encode()])
    assert len(text) < LONGEST_LINE + 1_000
    assert left_out == 10_000_000 - LONGEST_LINE
    assert f"\n{LINE}" in text


def test_what_is_cut_off_a_long_line_may_be_a_credential_and_is_left_out() -> None:
    text, _left_out = kept([b"x" * (LONGEST_LINE - 12), b" token=s3cret and=more\n"])
    assert "cret" not in text


def test_what_is_no_text_is_shown_as_such() -> None:
    text, _left_out = kept([b"before \xff\xfe\x00 after\n"])
    assert text == "before \ufffd\ufffd\x00 after\n"
