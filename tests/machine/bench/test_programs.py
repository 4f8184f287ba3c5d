# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The programs of ``make bench``: each finds what it measures, also after that has moved."""

from __future__ import annotations

import importlib

import pytest

from tests.support.paths import REPOSITORY, TESTS

PROGRAMS = sorted(
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
    for path in (TESTS / "bench").rglob("*.py")
    if "connection" not in path.parts
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_can_be_loaded(program: str) -> None:
    importlib.import_module(program)
