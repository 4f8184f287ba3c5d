# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is said of XIDs, and how often."""

from __future__ import annotations

import pytest
from gpu_plugin.driver.nvml import Xid
from gpu_plugin.driver.watch import XidLog


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_is_told_at_once_and_the_rest_as_a_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    log = XidLog(5.0, clock)
    for _time in range(1000):
        log.heard(Xid("GPU-0", 94))
        log.tick()
    log.heard(Xid("GPU-0", 94, 1, 0))
    log.heard(Xid("GPU-1", 94))
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("XID ")[2] for line in said] == [
        "gpu=GPU-0 xid=94 gi=None ci=None",
        "gpu=GPU-0 xid=94 gi=1 ci=0",
        "gpu=GPU-1 xid=94 gi=None ci=None",
    ]
    clock.now = 5.0
    log.tick()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("gpu=GPU-0 xid=94 gi=None ci=None times=999")
    clock.now = 9.0
    log.heard(Xid("GPU-0", 94))
    log.tick()
    assert capsys.readouterr().err == ""
    clock.now = 10.0
    log.tick()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_was_quiet_is_told_at_once_again(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    log = XidLog(5.0, clock)
    for clock.now in (0.0, 6.0, 12.0):
        log.tick()
        log.heard(Xid("GPU-0", 48))
        assert len(capsys.readouterr().err.splitlines()) == 1
