# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The best of all choices, found without trying them all."""

from __future__ import annotations

import itertools

from gpu_plugin.advertise.preference import Scores, best
from hypothesis import given
from hypothesis import strategies as st

# The NVLinks of a DGX-1: two squares with their diagonals, some doubled, joined by a cube's edges.
CUBE_MESH = {
    **dict.fromkeys([(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)], 2),
    **dict.fromkeys([(0, 1), (0, 2), (1, 3), (4, 5), (4, 6), (5, 7), (2, 6), (3, 7)], 1),
}


def matrix(pairs: dict[tuple[int, int], int], count: int) -> Scores:
    return [
        [0 if i == j else pairs.get((min(i, j), max(i, j)), 0) for j in range(count)]
        for i in range(count)
    ]


def tree(*sizes: int) -> Scores:
    """Devices in groups of groups: pairs of one innermost group are worth most."""

    def place(one: int) -> list[int]:
        found = []
        for size in sizes:
            found.append(one % size)
            one //= size
        return found[::-1]

    total = 1
    for size in sizes:
        total *= size

    def near(one: int, other: int) -> int:
        same = itertools.takewhile(
            lambda pair: pair[0] == pair[1], zip(place(one), place(other), strict=True)
        )
        return 10 * (1 + len(list(same)))

    return [[near(i, j) if i != j else 0 for j in range(total)] for i in range(total)]


def sums(scores: Scores, chosen: tuple[int, ...]) -> tuple[int, int]:
    rest = [one for one in range(len(scores)) if one not in chosen]
    inside, outside = (
        sum(scores[i][j] for i, j in itertools.combinations(some, 2)) for some in (chosen, rest)
    )
    return inside, outside


def by_trying(scores: Scores, forced: list[int], size: int) -> list[int]:
    """The best pairs, then the best rest, then the lowest numbers."""
    choices = [
        one for one in itertools.combinations(range(len(scores)), size) if set(forced) <= set(one)
    ]
    top = max(sums(scores, one) for one in choices)
    return list(min(one for one in choices if sums(scores, one) == top))


@st.composite
def trees(draw: st.DrawFn) -> Scores:
    """Any tree: pairs are worth what the innermost group that has both is worth."""
    count = draw(st.integers(1, 9))
    scores = [[0] * count for _row in range(count)]

    def fill(members: list[int], least: int) -> None:
        level = least + draw(st.integers(1, 50))
        groups: dict[int, list[int]] = {}
        for one in members:
            groups.setdefault(draw(st.integers(0, 2)), []).append(one)
        for one, other in itertools.combinations(members, 2):
            scores[one][other] = scores[other][one] = level
        if len(groups) > 1:
            for group in groups.values():
                fill(group, level)

    fill(list(range(count)), 0)
    return scores


@st.composite
def meshes(draw: st.DrawFn) -> Scores:
    count = draw(st.integers(1, 8))
    pairs = itertools.combinations(range(count), 2)
    return matrix({pair: draw(st.sampled_from([10, 20, 50, 110, 210])) for pair in pairs}, count)


@given(trees() | meshes(), st.data())
def test_nothing_is_better_by_trying_everything(scores: Scores, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(scores)))
    forced = data.draw(st.lists(st.integers(0, len(scores) - 1), unique=True, max_size=size))
    assert best(scores, forced, size) == by_trying(scores, forced, size)


def test_choices_from_a_cube_mesh_are_the_best() -> None:
    scores = matrix(CUBE_MESH, 8)
    for forced in ([], [5], [1, 6]):
        for size in range(max(1, len(forced)), 9):
            assert best(scores, forced, size) == by_trying(scores, forced, size), (forced, size)


def test_choices_from_sixteen_in_a_tree_are_the_best() -> None:
    scores = tree(2, 4, 2)
    for size in (1, 2, 5, 11):
        assert best(scores, [], size) == by_trying(scores, [], size), size


def test_a_single_gpu_is_taken_from_no_pair() -> None:
    pairs = matrix({(0, 1): 100, (2, 3): 100}, 5)
    assert best(pairs, [], 1) == [4]
    assert best(matrix({(1, 2): 100}, 4), [], 1) == [0]


def test_a_clique_is_found_where_trying_everything_is_too_much() -> None:
    clique = [2, 3, 5, 7, 11, 13]
    pairs = dict.fromkeys(itertools.combinations(clique, 2), 100)
    pairs |= {(one, one + 1): 50 for one in range(15) if (one, one + 1) not in pairs}
    assert best(matrix(pairs, 16), [], 6) == clique
    assert best(matrix(pairs, 16), [7], 6) == clique
    odd = best(matrix(pairs, 16), [0, 15], 7)
    assert len(set(odd)) == 7
    assert {0, 15} <= set(odd)
