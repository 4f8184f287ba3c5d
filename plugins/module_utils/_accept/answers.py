# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The answers of a process of the load test, read strictly: a broken driver may have had a hand in them.

A line of JSON says that a part has begun, or is its outcome. Of other lines, such as a traceback, the last is a reason.
"""

from __future__ import annotations

import math
import typing as t

from .._base.text import json_data
from .._base.text.strict import bounded

START = "start"  # of the process; it is of no GPU
FLOAT, TENSOR, MEMORY, BANDWIDTH = "float", "tensor", "memory", "bandwidth"
HOST, PEER = "host", "peer"
# The numbers that are measured. The units are those of ``machine/load``.
NUMBERS: t.Mapping[str, t.Tuple[str, ...]] = {
    START: (),
    FLOAT: ("multiprocessors", "expected", "rounds", "tflops"),
    TENSOR: ("multiprocessors", "expected", "rounds", "tflops"),
    MEMORY: ("bytes", "wrong", "bits"),
    BANDWIDTH: ("gb_per_s",),
    HOST: ("to_device", "to_host", "wrong"),
    PEER: ("gb_per_s", "wrong"),
}
MOST_LINES, MOST_MULTIPROCESSORS = 10_000, 4096


class PartName(t.NamedTuple):
    """A part of the test on one GPU; ``peer`` is the other GPU of a link."""

    part: str
    uuid: str = ""
    peer: str = ""


class Outcome(t.NamedTuple):
    """The numbers that a part has measured, the error with which it failed, or why there was nothing to measure.

    ``wrong_words`` are counted by multiprocessor.
    """

    numbers: t.Mapping[str, float] = {}
    wrong_words: t.Mapping[str, int] = {}
    error: str = ""
    absent: str = ""


class Answers(t.NamedTuple):
    """The parts that have begun, those with an outcome, and the last line that is about no part."""

    begun: t.FrozenSet[PartName] = frozenset()
    outcomes: t.Mapping[PartName, Outcome] = {}
    last_line: str = ""


def parse_answers(text: str) -> Answers:
    """Return what a process has printed."""
    begun: t.Set[PartName] = set()
    outcomes: t.Dict[PartName, Outcome] = {}
    last_line = ""
    for line in text.splitlines()[:MOST_LINES]:
        try:
            data = json_data.loads(line)
            name = PartName(*(_text(data, key) for key in PartName._fields))
            numbers = NUMBERS[name.part]
            if data.get("begun") is True:
                begun.add(name)
            else:
                outcomes[name] = _outcome(data, numbers)
        except json_data.MISREAD:
            last_line = bounded(line.strip()) or last_line
    return Answers(frozenset(begun), outcomes, last_line)


def _outcome(data: t.Mapping[str, t.Any], numbers: t.Sequence[str]) -> Outcome:
    error, absent = _text(data, "error"), _text(data, "absent")
    if error or absent:
        return Outcome(error=error, absent=absent)
    wrong_words = data.get("wrong_words", {})
    if len(wrong_words) > MOST_MULTIPROCESSORS:
        raise ValueError("more multiprocessors than a GPU has")
    return Outcome(
        {key: _number(data[key]) for key in numbers},
        {str(int(place)): int(_number(count)) for place, count in wrong_words.items()},
    )


def _text(data: t.Mapping[str, t.Any], key: str) -> str:
    return bounded(json_data.text(data.get(key, "")))


def _number(value: t.Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("no number")
    if not math.isfinite(value) or value < 0:
        raise ValueError("no number that can have been measured")
    return float(value)
