# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A command that begins before its answer is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.bounded import AheadHost

from tests.support.waiting import LIMIT


def test_what_has_begun_is_run_once_and_what_comes_later_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ["sh", "-c", f"echo ran >>{log}; wc -l <{log}"]
    host = AheadHost()
    host.begin(words, check=False, timeout=LIMIT)
    assert host.run(words, check=False).out.strip() == "1"
    assert host.run(words, check=False).out.strip() == "2"  # a second look is a new one
    assert host.run(["echo", "another"]).out == "another\n"


def test_what_has_failed_fails_where_it_is_asked_for() -> None:
    host = AheadHost()
    host.begin(["sh", "-c", "exit 3"])
    with pytest.raises(NodeError, match="command failed with status 3"):
        host.run(["sh", "-c", "exit 3"])
