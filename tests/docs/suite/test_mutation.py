# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The guards that are broken one after the other are in the product as they are written down."""

from __future__ import annotations

import yaml

from tests.mutation.__main__ import GUARDS
from tests.support.paths import REPOSITORY


def test_each_guard_is_there_once_and_so_are_its_tests() -> None:
    guards = yaml.safe_load(GUARDS.read_text())
    assert len(guards) >= 60
    there = {one["name"]: (REPOSITORY / one["file"]).read_text() for one in guards}
    assert [one["name"] for one in guards if there[one["name"]].count(one["find"]) != 1] == []
    tests = {path.partition("::")[0] for one in guards for path in one["tests"]}
    assert [path for path in sorted(tests) if not (REPOSITORY / path).exists()] == []
