# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A long text that arrives in pieces, such as a log: its beginning and its end, with credentials masked."""

from __future__ import annotations

import collections
import typing as t

from .masking import masked_text

LONGEST_LINE = 1 << 16


class Excerpt:
    """Hands on the lines of a text, each masked by itself: a quote that one leaves open hides nothing of the next.

    Of a text of more than ``most`` bytes, what is left out is in its middle. What is cut off a line of more than
    ``LONGEST_LINE`` is left out as well: where a credential in it ends would not be known.
    """

    def __init__(self, write: t.Callable[[bytes], t.Any], most: int) -> None:
        self._write, self._half = write, most // 2
        self._begun = bytearray()
        self._head = self._end = self.left_out = 0
        self._tail: t.Deque[bytes] = collections.deque()

    def take(self, data: bytes) -> None:
        """Take the next piece."""
        first, *lines = data.split(b"\n")
        self._add(first)
        for one in lines:
            self._hand(b"\n")
            self._add(one)

    def close(self) -> None:
        """Hand on what is left."""
        if self._begun:
            self._hand(b"")
        if self.left_out:
            self._write(b"[%d bytes are left out]\n" % self.left_out)
        for one in self._tail:
            self._write(one)

    def _add(self, data: bytes) -> None:
        room = LONGEST_LINE - len(self._begun)
        self._begun += data[:room]
        self.left_out += len(data[room:])

    def _hand(self, end: bytes) -> None:
        line = masked_text(self._begun.decode("utf-8", "replace")).encode() + end
        self._begun.clear()
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
