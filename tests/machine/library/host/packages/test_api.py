# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Locks of package managers that others hold."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.packages import api

from tests.fakes.clock import Clock
from tests.fakes.packages.debian import LOCKED, Debian, converge


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(api, "time", clock)
    return clock


def test_lock_of_another_process_is_waited_for(clock: Clock) -> None:
    host = Debian()
    host.answers = [LOCKED, LOCKED, None, LOCKED]
    assert converge(host).steps == ()
    assert clock.now == 3 * api.RETRY_SECONDS
    changes = [words for words in host.ran if words[:2] == ("apt-get", "-y")]
    assert len(changes) == 2
    assert "DPkg::Lock::Timeout=300" in changes[0]


def test_lock_that_stays_is_given_up(clock: Clock) -> None:
    host = Debian()
    host.answers = [LOCKED] * 100
    with pytest.raises(NodeError, match=r"longer than 7 s.*held by 7.*raise lock_timeout"):
        converge(host, lock_timeout=7)
    assert 7 <= clock.now <= 7 + api.RETRY_SECONDS
    assert set(host.packages) == {"dpkg"}
