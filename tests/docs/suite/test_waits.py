# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""No test has a limit of its own to what it waits for: what is enough on one machine is too little on another."""

from __future__ import annotations

import ast

import pytest

from tests.support.paths import REPOSITORY

TIERS = ("tests/pure", "tests/machine", "tests/node", "tests/cluster")
STARTS = ("run", "check_call", "check_output", "call")  # of subprocess
WAITS = (
    "wait",
    "communicate",
    "join",
    "result",
    "get",
)  # of processes, events, threads, futures, queues


def limit(node: ast.AST) -> bool:
    """Return whether a call waits for so many seconds as are written there."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    given = [one.value for one in node.keywords if one.arg == "timeout"]
    if node.func.attr == "wait" and len(node.args) == 1:
        given += node.args
    starts = node.func.attr in STARTS and ast.unparse(node.func.value) == "subprocess"
    written = [one.value for one in given if isinstance(one, ast.Constant)]
    seconds = [one for one in written if type(one) in (int, float) and one > 0]
    return (starts or node.func.attr in WAITS) and seconds != []


@pytest.mark.parametrize("folder", TIERS)
def test_what_a_test_waits_for_ends_by_the_limit_of_all(folder: str) -> None:
    found = []
    for path in sorted((REPOSITORY / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if limit(node):
                found.append(f"{path.relative_to(REPOSITORY)}:{node.lineno}: {ast.unparse(node)}")
    assert found == [], "LIMIT of tests/support/waiting.py"
