# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The beginning and the end of a long text that arrives in pieces, such as a log, with credentials masked."""

from __future__ import annotations

import collections
import typing as t

from .masking import MASK, masked_lines
from .private_keys import PrivateKeys

LONGEST_LINE = 1 << 16


class Excerpt:
    """Writes the lines of a text, each masked by itself: a quote that one leaves open hides nothing of the next.

    Private keys are the exception: whether a line belongs to one depends on the lines before it and on the next.

    The middle of a text of more than ``most`` bytes is left out, and so is the end of a line of more than
    ``LONGEST_LINE``, since the end of a credential in it would not be known.
    """

    def __init__(self, write: t.Callable[[bytes], t.Any], most: int) -> None:
        self._write, self._half = write, most // 2
        self._begun = bytearray()
        self._keys = PrivateKeys(MASK)
        self._head = self._end = self.left_out = 0
        self._tail: t.Deque[bytes] = collections.deque()

    def take(self, data: bytes) -> None:
        """Take the next piece."""
        first, *lines = data.split(b"\n")
        self._add(first)
        for line in lines:
            self._hand(b"\n")
            self._add(line)

    def close(self) -> None:
        """Write the last lines."""
        if self._begun:
            self._hand(b"")
        for line in self._keys.close():
            self._add_line(line)
        if self.left_out:
            self._write(b"[%d bytes are left out]\n" % self.left_out)
        for line_of_tail in self._tail:
            self._write(line_of_tail)

    def _add(self, data: bytes) -> None:
        room = LONGEST_LINE - len(self._begun)
        self._begun += data[:room]
        self.left_out += len(data[room:])

    def _hand(self, end: bytes) -> None:
        text = (self._begun + end).decode("utf-8", "replace")
        self._begun.clear()
        for line in self._keys.take(text):
            self._add_line(line)

    def _add_line(self, text: str) -> None:
        content, end, _nothing = text.partition("\n")
        line = (masked_lines(content) + end).encode()
        if not self._tail and self._head + len(line) <= self._half:
            self._head += len(line)
            self._write(line)
            return
        self._tail.append(line)
        self._end += len(line)
        while self._end > self._half:
            gone = len(self._tail.popleft())
            self._end -= gone
            self.left_out += gone
