# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tests run modules and services on this machine, which stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

STATE = Path("/var/lib/gpu-node")


@pytest.fixture(scope="session", autouse=True)
def machine_is_left_alone() -> Iterator[None]:
    """See that no test has written what a node remembers of itself."""
    before = remembered()
    yield
    assert remembered() == before


def remembered() -> dict[Path, int]:
    """Return when each file of the node's state was written, in nanoseconds since 1970."""
    return {one: one.stat().st_mtime_ns for one in STATE.rglob("*") if one.is_file()}
