# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about container runtimes names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/container-runtimes.md").read_text()
NAMED = sorted(set(re.findall(r"`(test_\w+)::(\w+)`", PAGE)))


def test_there_are_some() -> None:
    assert len(NAMED) >= 3


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_it_exists(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / f"tests/integration/{file}.py").read_text()
