# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is told of tests that fail by chance."""

from __future__ import annotations

from tests.runner.flaky import standing

FILE = "tests/machine/daemon/node/test_node.py"


def test_a_failure_stands_while_its_file_is_the_same() -> None:
    failed = [
        "tests/machine/daemon/node/test_node::test_a",
        "tests/machine/daemon/node/test_node/TestHeld::test_b",
        "lane sanity",
    ]
    assert standing(failed, [FILE]) == failed
    assert standing(failed, []) == ["lane sanity"]


def test_a_failure_is_forgotten_where_its_file_has_changed_and_another_has_a_name_like_it() -> None:
    assert standing(["tests/machine/daemon/node/test_node_files::test_c"], [FILE]) == []
