# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What holds for every test: its environment, its folder, and that no example is counted in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import environment, folder
from tests.support.paths import TESTS

MADE = pytest.StashKey[Path]()
# Seconds after which a test hangs, however busy the machine is: it ends with the stacks of all threads.
HANGS = {"pure": 300, "docs": 600, "machine": 900, "node": 1800, "cluster": 1800}
environment.settle()

# How long an example takes says something of the machine alone. The same examples come in each run of
# `make test`; others look for new ones.
settings.register_profile(
    "same",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("new", settings.get_profile("same"), derandomize=False, print_blob=True)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Have hypothesis look for examples that no run has seen."""
    parser.addoption("--new-examples", action="store_true", help="other examples in each run")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have all that is written in one folder. Workers get theirs from the process that starts them."""
    if config.getoption("--new-examples"):
        settings.load_profile("new")
    if hasattr(config, "workerinput"):
        return
    place = folder.given()
    if place is None:
        place = config.stash[MADE] = folder.begin()
    config.option.basetemp = config.option.basetemp or place / "t"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """End what hangs."""
    for item in items:
        tier = item.path.relative_to(TESTS).parts[0]
        if tier in HANGS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(HANGS[tier]))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing of it behind."""
    if place := config.stash.get(MADE, None):
        folder.remove(place)
