# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The table of what versions of Kubernetes do with the driver's devices, and who reads it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.dra import versions
from ansible_collections.gpu.node.plugins.module_utils._base.dra.versions import (
    LEAKS,
    OLDEST,
    RECOMMENDED,
    TRAITS,
    Trait,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("v1.36.2-eks-1", (1, 36, 2)),
        ("Kubernetes v1.34.0", (1, 34, 0)),
        ("1.36.3", (1, 36, 3)),
        ("v1.36.10+k3s1", (1, 36, 10)),
        ("v1.36", None),
        ("", None),
        ("dev", None),
    ],
)
def test_versions_as_they_are_said(text: str, found: Any) -> None:
    assert versions.parse(text) == found


def test_a_trait_is_of_the_versions_from_its_first_to_the_one_that_mends_it() -> None:
    assert LEAKS.of((1, 36, 2))
    assert not LEAKS.of(RECOMMENDED)
    for one in TRAITS:
        assert one.of(OLDEST) == (one.mended is None or one.mended > OLDEST)
    late = Trait("it is new", "kubernetes/kubernetes#1", since=(1, 38, 0))
    assert [late.of(one) for one in ((1, 37, 9), (1, 38, 0), (2, 0, 0))] == [False, True, True]


def test_the_oldest_version_is_the_first_without_what_refuses_one() -> None:
    refused = [one for one in TRAITS if one.mended and one.mended <= OLDEST]
    assert max(one.mended for one in refused if one.mended) == OLDEST
    assert versions.refusal(OLDEST) == ""
    before = (*OLDEST[:2], OLDEST[2] - 1)
    assert all(one.reference in versions.refusal(before) for one in refused if one.of(before))


def test_each_trait_says_what_it_means_and_where_it_is_discussed() -> None:
    assert len({one.means for one in TRAITS}) == len(TRAITS)
    for one in TRAITS:
        assert re.fullmatch(r"(kubernetes/(kubernetes|enhancements)#\d+(, )?)+", one.reference)
        assert not one.means.endswith(".")
