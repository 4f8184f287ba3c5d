# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes in a folder, for the tests that need one."""

from __future__ import annotations

import pytest

from tests.fakes.daemon.fixtures import (
    labeller,
    make_node,
    make_shared,
    memory,
    small_run,
    standin,
)

__all__ = ["labeller", "make_node", "make_shared", "memory", "small_run", "standin"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what the endurance tests have measured."""
    from tests.bench.rounds import show

    show(terminalreporter)
