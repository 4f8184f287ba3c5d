# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Hostile inputs for a parser, made of real ones, and what is asked of its answers."""

from __future__ import annotations

import itertools
import random
import resource
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from tests.support.waiting import alarm

FEW, MANY = 1_000, 10_000
TIMED = 1_000  # inputs which have the time of one alarm together
TRACED = 100  # inputs whose memory is followed piece by piece, which is slow
GROWTH = 1 << 20
PEAK = 64 << 20
MESSAGE = 1500
LONGEST = 20_000

# What has broken parsers, whatever they read. Parsers of other formats see it as just a text.
WORDS = (
    *("", "\0", "\n", "\r", "\t", "\x1b]0;owned\x07", "\x7f", "\x85", "\u2028", "\ufeff", "\ud800"),
    *(
        "²",
        "٣",
        "ﬁ",
        "é",
        "😀",
        "\\ud800",
        "\\u0000",
        "\\",
        "\\x41",
        "'",
        '"',
        "`",
        "$(id)",
        "%s%n",
        "{0}",
    ),
    *(
        "9" * 400,
        "9" * 5000,
        "0x" + "f" * 5000,
        "-" + "1" * 4301,
        "1e999",
        "-0",
        "0x",
        "0b",
        "1_000",
        "08",
    ),
    *(
        "1" + ":59" * 900,
        "NaN",
        "Infinity",
        ".inf",
        "true",
        "null",
        "~",
        "[]",
        "{}",
        "-1",
        "--1",
        "1" * 20,
    ),
    *(
        "[" * 3000,
        "]" * 50,
        "{" * 3000,
        '{"a":' * 600,
        "[[" * 40,
        "- " * 300,
        "? " * 200,
        "a." * 300,
    ),
    *(
        "&a [*a]",
        "*a",
        "&a",
        "<<: *a",
        "!!python/object/apply:os.system [id]",
        "!!binary x",
        "!!set {a}",
    ),
    *(
        "2001-99-99",
        "2001-01-01T00:00:00+99:99",
        "---",
        "...",
        "|",
        ">",
        "%YAML 9.9",
        "#",
        "/*",
        "//",
    ),
    *(
        "*" * 30 + "!",
        "*a" * 100,
        "(" * 100,
        "a" * 5000,
        "../" * 50,
        "/",
        "=",
        ":",
        ",",
        "\xa0",
        " " * 500,
    ),
    "[&a [x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c,*c,*c,*c],"
    " &e [*d,*d,*d,*d,*d,*d,*d], &f [*e,*e,*e,*e,*e,*e,*e,*e], [*f,*f,*f,*f,*f,*f,*f,*f]]",
)
Change = Callable[[random.Random, str, Sequence[str]], str]
# Almost all of a parser's lines are reached by a few hundred; more are for what only chance finds.
counts = pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.endurance)])


def _cut(dice: random.Random, text: str, _words: Sequence[str]) -> str:
    start, end = _span(dice, text)
    return text[:start] + text[end:]


def _put(dice: random.Random, text: str, words: Sequence[str]) -> str:
    at = dice.randint(0, len(text))
    return text[:at] + dice.choice(words) + text[at:]


def _swap(dice: random.Random, text: str, words: Sequence[str]) -> str:
    """Put something in the place of a word, a number or a text in quotes."""
    ends = [at for at, one in enumerate(text) if not (one.isalnum() or one in "-_.")]
    if len(ends) < 2:
        return dice.choice(words)
    first = dice.randrange(len(ends) - 1)
    return text[: ends[first] + 1] + dice.choice(words) + text[ends[first + 1] :]


def _again(dice: random.Random, text: str, _words: Sequence[str]) -> str:
    start, end = _span(dice, text)
    return text[:end] + text[start:end] * dice.choice((1, 2, 50)) + text[end:]


def _flip(dice: random.Random, text: str, _words: Sequence[str]) -> str:
    at = dice.randint(0, len(text))
    return (
        text[:at] + chr(dice.choice((dice.randrange(128), dice.randrange(0xD7FF)))) + text[at + 1 :]
    )


def _splice(dice: random.Random, text: str, words: Sequence[str]) -> str:
    other = dice.choice(words)
    return text[: dice.randint(0, len(text))] + other[dice.randint(0, len(other)) :]


CHANGES: tuple[Change, ...] = (_cut, _put, _put, _swap, _swap, _swap, _again, _flip, _splice)


def _span(dice: random.Random, text: str) -> tuple[int, int]:
    start = dice.randint(0, len(text))
    return start, min(len(text), start + dice.choice((1, 3, 10, 40)))


def inputs(samples: Sequence[str], words: Sequence[str] = (), count: int = FEW) -> Iterator[str]:
    """Yield so many texts, the same at each run: real ones with one to four things done to them."""
    dice = random.Random(11)
    hostile = (*WORDS, *words, *words, *samples)
    yield from hostile
    for _number in range(count - len(hostile)):
        text = dice.choice(samples)
        for _time in range(dice.choice((1, 1, 2, 4))):
            text = dice.choice(CHANGES)(dice, text, hostile)[:LONGEST]
        yield text


class Thrown:
    """A parser and what came of all that was thrown at it. ``clear`` are the errors that it may raise."""

    def __init__(self, parse: Callable[[str], object], *clear: type[Exception]) -> None:
        self.parse, self.clear = parse, clear
        self.answers: Counter[str] = Counter()

    def throw(self, texts: Iterator[str]) -> None:
        """Throw texts. AssertionError: an answer took too long or was unclear; memory stayed taken."""
        last: deque[str] = deque(maxlen=TRACED)
        before = _most_memory()
        while some := list(itertools.islice(texts, TIMED)):
            with alarm():
                self.answers.update(map(self._answer, some))
            last.extend(some)
        assert _most_memory() - before < PEAK, "it takes much memory"
        self._follow(last)
        assert len(self.answers) > 1, f"all had the same answer: {self.answers}"

    def _answer(self, text: str) -> str:
        try:
            self.parse(text)
        except self.clear as error:
            if len(str(error)) > MESSAGE:
                raise AssertionError(f"a long message about {text[:300]!r}") from error
            return type(error).__name__
        except Exception as error:
            raise AssertionError(f"{error!r:.300} about {text[:300]!r}") from error
        return "taken"

    def _follow(self, texts: Iterable[str]) -> None:
        """Go through texts that it has seen already: nothing more may stay in memory than before."""
        tracemalloc.start()
        try:
            before, _peak = tracemalloc.get_traced_memory()
            for text in texts:
                self._answer(text)
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < GROWTH, "memory stays taken"
        assert peak < PEAK, "it takes much memory for a short text"


def _most_memory() -> int:
    """Return the most bytes that this process has ever had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
