# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about the driver names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.findall(r"`(test_\w+)::(test_\w+)`", (ROOT / "docs/driver.md").read_text())


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_named_test_exists(file: str, test: str) -> None:
    paths = [*ROOT.glob(f"tests/integration/**/{file}.py"), *ROOT.glob(f"tests/unit/**/{file}.py")]
    assert any(f"def {test}(" in path.read_text() for path in paths)


def test_tests_are_named() -> None:
    assert len(NAMED) >= 5
