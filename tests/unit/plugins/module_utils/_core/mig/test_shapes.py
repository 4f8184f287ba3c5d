# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How compute instances share GPU instances."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._core.mig.shapes import (
    Shape,
    shapes,
    spread,
    usual_places,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ({}, []),
        ({"3g.20gb": 2}, ["3g.20gb", "3g.20gb"]),
        ({"1c.3g.20gb": 3}, ["3g.20gb (1c + 1c + 1c)"]),
        ({"1c.3g.20gb": 2}, ["3g.20gb (1c + 1c)"]),
        ({"1c.3g.20gb": 6}, ["3g.20gb (1c + 1c + 1c)"] * 2),
        ({"1c.3g.20gb": 1, "2c.3g.20gb": 1}, ["3g.20gb (2c + 1c)"]),
        ({"2c.3g.20gb": 2}, ["3g.20gb (2c)"] * 2),
        ({"3c.7g.40gb": 1, "4c.7g.40gb": 1}, ["7g.40gb (4c + 3c)"]),
        ({"3g.20gb": 1, "1c.3g.20gb": 1}, ["3g.20gb", "3g.20gb (1c)"]),
    ],
)
def test_layouts_come_to_what_mig_parted_makes_of_them(
    layout: dict[str, int], expected: list[str]
) -> None:
    assert [str(one) for one in shapes(layout)] == expected


def test_compute_instance_that_no_gpu_has() -> None:
    with pytest.raises(InputError, match=r"3c\.4g\.20gb.*a 4g can have"):
        shapes({"3c.4g.20gb": 1})


@given(st.sampled_from([2, 3, 4, 7]), st.lists(st.sampled_from([1, 2, 3, 4]), max_size=9))
def test_every_compute_instance_gets_its_place(slices: int, sizes: list[int]) -> None:
    layout: dict[str, int] = {}
    for size in sizes:
        if 2 * size <= slices + 1:
            name = f"{size}c.{slices}g.20gb"
            layout[name] = layout.get(name, 0) + 1
    found = shapes(layout)
    assert sum(len(one.cis) for one in found) == sum(layout.values())
    for one in found:
        places = spread(one.cis, usual_places(slices))
        assert places is not None
        taken = [at for size, start in places for at in range(start, start + size)]
        assert len(taken) == len(set(taken))
        assert max(taken) < slices


def test_whole_instances_have_the_plain_name() -> None:
    assert str(Shape("1g.10gb+me", (1,))) == "1g.10gb+me"
    assert str(Shape("2g.20gb", ())) == "2g.20gb ()"
