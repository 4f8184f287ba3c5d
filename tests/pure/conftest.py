# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pure tests start no process, use no network, do not sleep, and write nowhere but to their own folder."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import purity
from tests.support.waiting import alarm

HERE = Path(__file__).parent
SECONDS = 60.0  # of the processor, for one test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse what a pure test may not do, from its first fixture on; end a pattern that backtracks for ever."""
    if HERE not in item.path.parents:  # pytest asks for the tests of all folders
        return (yield)
    purity.watch(True)
    try:
        with alarm(SECONDS):
            return (yield)
    finally:
        purity.watch(False)
