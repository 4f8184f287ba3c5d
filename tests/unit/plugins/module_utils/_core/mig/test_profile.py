# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names of MIG profiles."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._core.mig.profile import (
    canonical,
    name_from_sizes,
    parse,
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
