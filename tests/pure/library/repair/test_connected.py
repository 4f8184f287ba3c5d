# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs are reset together as NVLink connects them, also where one of them does not answer."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpu.node.plugins.module_utils._repair.signs import connected_gpus
from hypothesis import given
from hypothesis import strategies as st

CHAIN = {"a": ["b"], "b": ["a", "c"], "c": ["b"], "d": []}


def test_gpus_are_connected_through_others() -> None:
    assert connected_gpus("a", CHAIN) == ("b", "c")
    assert connected_gpus("d", CHAIN) == ()


def test_one_that_does_not_answer_is_known_by_the_others() -> None:
    assert connected_gpus("b", {**CHAIN, "b": None}) == ("a", "c")
    assert connected_gpus("d", {**CHAIN, "d": None}) == ()


def test_of_two_that_do_not_answer_it_is_not_known() -> None:
    assert connected_gpus("a", {**CHAIN, "a": None, "d": None}) is None
    assert connected_gpus("b", {**CHAIN, "a": None, "d": None}) is None
    assert connected_gpus("x", CHAIN) is None


def test_one_without_links_to_any_that_do_not_answer_is_known() -> None:
    assert connected_gpus("a", {**CHAIN, "d": None, "e": None}) == ("b", "c")
    assert connected_gpus("d", {**CHAIN, "a": None, "c": None}) == ()


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.none() | st.lists(st.sampled_from("abcdef")), min_size=1
    )
)
def test_who_is_connected_with_one_has_that_one_and_the_same_others(
    links: Mapping[str, list[str] | None],
) -> None:
    for one in links:
        found = connected_gpus(one, links)
        for other in found or ():
            if other in links:
                assert {*(connected_gpus(other, links) or ()), other} == {*(found or ()), one}
