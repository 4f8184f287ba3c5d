# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Choose the devices that work together best, and leave the best for the next. Pure.

The worth of a set is the sum over its pairs. The best choice is worth most; of equal ones it is the
one whose rest is worth most, and of equal ones again the one with the lowest numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from typing import Final

Scores = Sequence[Sequence[int]]
# A choice's worth, its rest's worth, and the choice itself: device 0 is the highest bit.
Worth = tuple[int, int, int]

MOST_CHOICES: Final = 500


def best(scores: Scores, forced: Collection[int], size: int) -> list[int]:
    """Return the best ``size`` of the devices, with the forced ones. There must be so many."""
    everything = range(len(scores))
    levels = _levels(scores, list(everything), forced, size)
    if levels is not None:
        chosen = levels[size]
        return [one for one in everything if chosen[2] >> (len(scores) - 1 - one) & 1]
    rest = [one for one in everything if one not in forced]
    missing = size - len(forced)
    if math.comb(len(rest), missing) <= MOST_CHOICES:
        choices = [[*forced, *some] for some in itertools.combinations(rest, missing)]
    else:
        seeds = [[*forced]] if forced else [[one] for one in rest]
        choices = [_grown(scores, seed, size) for seed in seeds]
    values = [worth(scores, choice) for choice in choices]
    return sorted(choices[values.index(max(values))])


def worth(scores: Scores, chosen: Collection[int]) -> Worth:
    """Return what a choice is worth."""
    rest = [one for one in range(len(scores)) if one not in chosen]
    inside, outside = (
        sum(scores[one][other] for one, other in itertools.combinations(some, 2))
        for some in (chosen, rest)
    )
    return (inside, outside, sum(1 << (len(scores) - 1 - one) for one in chosen))


def _levels(
    scores: Scores, members: list[int], forced: Collection[int], size: int
) -> dict[int, Worth] | None:
    """Return the best choice of each count among the members; None where they form no tree.

    In a tree all pairs across two branches are worth the same, so that branches only need to know
    how many of each other are chosen. PCIe is a tree, and so is a switch that connects all.
    """
    if len(members) == 1:
        taken = (0, 0, 1 << (len(scores) - 1 - members[0]))
        return {1: taken} if members[0] in forced else {0: (0, 0, 0), 1: taken}
    least = min(scores[one][other] for one, other in itertools.combinations(members, 2))
    branches = _branches(scores, members, least)
    if len(branches) == 1:
        return None
    found: dict[int, Worth] = {0: (0, 0, 0)}
    total = 0
    for branch in branches:
        inner = _levels(scores, branch, forced, size)
        if inner is None:
            return None
        joined: dict[int, Worth] = {}
        for (a, left), (b, right) in itertools.product(found.items(), inner.items()):
            if a + b <= size:
                value = (
                    left[0] + right[0] + least * a * b,
                    left[1] + right[1] + least * (total - a) * (len(branch) - b),
                    left[2] | right[2],
                )
                joined[a + b] = max(joined.get(a + b, value), value)
        found, total = joined, total + len(branch)
    return found


def _branches(scores: Scores, members: list[int], least: int) -> list[list[int]]:
    """Split the members where nothing but pairs of the least worth connects them."""
    branches = []
    waiting = list(members)
    while waiting:
        branch = [waiting.pop(0)]
        for one in branch:
            near = [other for other in waiting if scores[one][other] > least]
            branch += near
            waiting = [other for other in waiting if other not in near]
        branches.append(branch)
    return branches


def _grown(scores: Scores, seed: list[int], size: int) -> list[int]:
    """Add one device after the other. Not always the best, but quick where trying all is not."""
    chosen = list(seed)
    while len(chosen) < size:
        rest = [one for one in range(len(scores)) if one not in chosen]
        chosen.append(
            max(
                rest,
                key=lambda one: (
                    sum(scores[one][other] for other in chosen),
                    -sum(scores[one][other] for other in rest if other != one),
                    -one,
                ),
            )
        )
    return chosen
