# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Private keys in the armour of PEM, OpenSSH and OpenPGP: blocks of Base64 over several lines.

A block ends at the first line that can't belong to it, so that a BEGIN which was injected into a log does not hide the
lines after it. A text may begin or end in the middle of a block.
"""

from __future__ import annotations

import re
import string
import typing as t

BEGIN = re.compile(
    r"-{4,5} ?BEGIN (?P<kind>[A-Z0-9 ]{0,40}?(?:KEY|CERTIFICATE)[A-Z0-9 ]{0,20}?) ?-{4,5}"
)
END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}?PRIVATE KEY[A-Z0-9 ]{0,20}? ?-{4,5}")
# The last word of a line if it is Base64, after any prefix of a log.
BODY = re.compile(
    r"(?P<before>(?:.*[\s:>|\"'])?)(?P<word>[A-Za-z0-9+/]+={0,2})(?P<after>[\"',]?\s*)\Z", re.S
)
WORD_ENDS = frozenset(string.ascii_letters + string.digits + "+/=\"',")
BASE64_END = re.compile(r"[A-Za-z0-9+/=]+\Z")
HEADER = re.compile(r"\s*(?:[A-Z][A-Za-z0-9-]{2,30}: .{0,200}|=[A-Za-z0-9+/]{4})?\s*\Z")
SSH_PUBLIC_KEY = re.compile(r".*(?:ssh|ecdsa)-[\w.@-]+[ \t]+\Z", re.S)
LINE = re.compile(r"[^\n]*\n|[^\n]+")
FULL_LINE = 60  # characters: all lines of a block but its last have 64 to 76
MOST_SLASHES = 8  # a path has more
LONG_WORD = 16  # a shorter one after other words may be of a log
PRIVATE, PUBLIC, NO_BLOCK = "private", "public", ""


class PrivateKeys:
    """Masks the private keys of a text whose lines arrive one after the other."""

    def __init__(self, mask: str) -> None:
        self._mask = mask
        self._block = NO_BLOCK
        self._is_first = True
        # The line before, which the next one decides on.
        self._pending: t.List[t.Match[str]] = []
        # Whether that is the text's first line, which may be the end of a longer one.
        self._is_fragment = False

    def take(self, line: str) -> t.Iterator[str]:
        """Take the next line, with its line end; yield the lines that are decided."""
        begin = BEGIN.search(line) if "BEGIN" in line else None
        end = END.search(line) if "END" in line else None
        body = BODY.match(line) if line.rstrip()[-1:] in WORD_ENDS else None
        closes = end is not None and (begin is None or end.start() < begin.start())
        is_first, self._is_first = self._is_first, False
        yield from self._decided(closes, body)
        if closes or begin:
            yield self._bounds(line, end if closes else None)
        elif self._block == PUBLIC and (body or HEADER.match(line)):
            yield line
        elif body and self._is_key(body):
            self._block = PRIVATE
            yield self._masked(body)
        elif self._block == PRIVATE and HEADER.match(line):
            yield line
        else:
            self._block = NO_BLOCK
            if body:
                self._pending.append(body)
                self._is_fragment = is_first and not body["before"].strip()
            else:
                yield line

    def close(self) -> t.Iterator[str]:
        """Yield the lines that are still pending."""
        yield from self._decided(False, None)

    def _decided(self, closes: bool, following: t.Optional[t.Match[str]]) -> t.Iterator[str]:
        """Yield the pending lines, masked if a block ends after them or the text begins within a line of one."""
        is_alone = following is not None and not following["before"].strip()
        if self._is_fragment and is_alone and following and not _is_full(following):
            self._is_fragment = False  # a block's last line, or none: the next line decides
            return
        begins = self._is_fragment and is_alone
        for body in self._pending:
            yield self._masked(body) if closes or begins else body.string
        self._pending.clear()
        self._is_fragment = False

    def _is_key(self, body: t.Match[str]) -> bool:
        """Return whether a line is of a key: any in its block, otherwise one of a block's width that looks random."""
        if self._block == PRIVATE:
            return not body["before"].strip() or len(body["word"]) >= LONG_WORD
        return _is_full(body)

    def _masked(self, body: t.Match[str]) -> str:
        return f"{body['before']}{self._mask}{body['after']}"

    def _bounds(self, line: str, end: t.Optional[t.Match[str]]) -> str:
        """Return a line in which blocks begin or end, or both, with their contents masked."""
        parts: t.List[str] = []
        at = 0
        if end:
            parts = [BASE64_END.sub(self._mask, line[: end.start()]), end.group()]
            at = end.end()
        self._block = NO_BLOCK
        begin = BEGIN.search(line, at)
        while begin:
            parts.append(line[at : begin.end()])
            at = begin.end()
            if "PRIVATE" in begin["kind"]:
                closing = END.search(line, at)
                stop = closing.start() if closing else _word_end(line, at)
                parts.append(self._mask if line[at:stop].strip() else "")
                self._block, at = NO_BLOCK if closing else PRIVATE, stop
            else:
                self._block = PUBLIC
            begin = BEGIN.search(line, at)
        return "".join(parts) + line[at:]


def _is_full(body: t.Match[str]) -> bool:
    """Return whether the word may be a whole line of a block: as long, and of different kinds of characters."""
    word = body["word"]
    return (
        len(word) >= FULL_LINE
        and sum(map(str.isupper, word)) > 5
        and sum(map(str.islower, word)) > 5
        and any(map(str.isdigit, word))
        and word.count("/") < MOST_SLASHES
        and not (word.startswith("AAAA") and SSH_PUBLIC_KEY.match(body["before"]))
    )


def _word_end(line: str, at: int) -> int:
    """Return where the argument, the variable or the line ends."""
    ends = [line.find(end, at) for end in "\0\r\n"]
    return min((end for end in ends if end >= 0), default=len(line))


def mask_private_keys(text: str, mask: str) -> str:
    """Return a text with its private keys masked."""
    keys = PrivateKeys(mask)
    lines = [line for part in LINE.findall(text) for line in keys.take(part)]
    return "".join([*lines, *keys.close()])
