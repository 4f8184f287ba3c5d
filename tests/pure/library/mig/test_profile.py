# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names of MIG profiles, and how compute instances share GPU instances."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._base.mig_profile import (
    Shape,
    canonical,
    name_from_sizes,
    parse,
    shapes,
    spread,
    usual_placements,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("1g.5gb", "1g.5gb"),
        ("1c.1g.5gb", "1g.5gb"),
        ("MIG 2g.20gb", "2g.20gb"),
        ("1g.10gb+me", "1g.10gb+me"),
        ("1g.24gb+me.all", "1g.24gb+me.all"),
        ("1g.24gb-me", "1g.24gb-me"),
        ("1c.3g.40gb", "1c.3g.40gb"),
        ("1g.24gb+me,gfx", "1g.24gb+gfx,me"),
    ],
)
def test_spellings_become_one(name: str, one: str) -> None:
    assert canonical(name) == one


@pytest.mark.parametrize(
    "name", ["", "1g", "g.5gb", "0g.5gb", "1g.5gb+", "1g.5gb+1a", "4c.3g.40gb", 5, None, "1g.5 gb"]
)
def test_other_names_are_refused_with_the_key(name: object) -> None:
    with pytest.raises(InputError, match="mig-devices"):
        parse(name, "mig-devices")


@given(
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(1, 300),
    st.sampled_from(["", "+me", "-me", "+gfx"]),
)
def test_what_is_printed_is_read_back(c: int, g: int, gb: int, attributes: str) -> None:
    name = f"{min(c, g)}c.{g}g.{gb}gb{attributes}"
    assert canonical(canonical(name)) == canonical(name)


GIB = 1 << 30


@pytest.mark.parametrize(
    ("slices", "memory_mb", "total", "name"),
    [
        (1, 4864, 40 * GIB, "1g.5gb"),
        (3, 71168, 141 * GIB, "3g.71gb"),  # halves are rounded up, not to the even number
        (1, 22528, 180 * GIB, "1g.23gb"),
        (7, 81152, 80 * GIB, "7g.80gb"),
    ],
)
def test_names_for_drivers_that_do_not_tell_them(
    slices: int, memory_mb: int, total: int, name: str
) -> None:
    assert name_from_sizes(slices, memory_mb, total, 0) == name


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
        placements = spread(one.cis, usual_placements(slices))
        assert placements is not None
        taken = [at for size, start in placements for at in range(start, start + size)]
        assert len(taken) == len(set(taken))
        assert max(taken) < slices


def test_whole_instances_have_the_plain_name() -> None:
    assert str(Shape("1g.10gb+me", (1,))) == "1g.10gb+me"
    assert str(Shape("2g.20gb", ())) == "2g.20gb ()"
