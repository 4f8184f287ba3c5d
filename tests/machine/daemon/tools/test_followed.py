# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Processes that are followed: real ones, of this process and of others."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_plugin.tools.followed import CHUNK, Events, Followed, Lines

from tests.fakes.mps.mps_running import living
from tests.support import helper_process
from tests.support.helper_process import kill
from tests.support.waiting import LIMIT, eventually

LEADER = "sleep 300 & echo $!; wait"  # with a process in its group


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[bytes]]:
    made = helper_process.start(
        ["sh", "-c", LEADER],
        stdout=subprocess.PIPE,
        start_new_session=True,
        ready=helper_process.executed,
    )
    yield made
    with contextlib.suppress(ProcessLookupError):
        os.killpg(made.pid, signal.SIGKILL)
    made.close()


def member(leader: subprocess.Popen[bytes]) -> int:
    assert leader.stdout is not None
    return int(leader.stdout.readline())


def wait(events: Events, done: Callable[[], bool]) -> None:
    def look() -> bool:
        events.wait(0)
        return done()

    eventually(look)


def test_end_of_a_child_ends_its_group(events: Events, leader: subprocess.Popen[bytes]) -> None:
    other, ends = member(leader), []
    one = Followed(leader.pid, events, lambda: ends.append(1), leader)
    assert (one.living, one.noticed) == (True, True)
    leader.send_signal(signal.SIGTERM)
    wait(events, lambda: bool(ends))
    assert (one.living, one.status, ends) == (False, -signal.SIGTERM, [1])
    wait(events, lambda: not living(other))


def test_process_that_another_started_is_followed_too(events: Events, tmp_path: Path) -> None:
    """It is reaped by somebody else."""
    told = tmp_path / "pid"
    script = f"setsid sleep 300 & echo $! > {told}"
    subprocess.run(["sh", "-c", script], check=True)
    pid, ends = int(told.read_text()), []
    one = Followed(pid, events, lambda: ends.append(1))
    events.wait(0)
    assert one.living
    kill(pid)
    wait(events, lambda: bool(ends))
    assert (one.living, one.status) == (False, None)


def test_without_pidfd_whoever_looks_notices(
    events: Events, leader: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before Linux 5.3."""

    def missing(_pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    ends: list[int] = []
    one = Followed(leader.pid, events, lambda: ends.append(1), leader)
    assert not one.noticed
    one.look()
    assert one.living
    leader.kill()

    def ended() -> bool:
        one.look()
        return not one.living

    wait(events, ended)
    assert ends == [1]


def test_process_that_got_the_number_is_left_alone(
    events: Events, leader: subprocess.Popen[bytes]
) -> None:
    one = Followed(leader.pid, events, lambda: None)
    one.began = "1"
    one.look()
    assert not one.living
    leader.send_signal(signal.SIGTERM)
    assert leader.wait(LIMIT) == -signal.SIGTERM  # and was not killed before


def test_last_words_are_there_when_the_end_is(
    events: Events, leader: subprocess.Popen[bytes]
) -> None:
    reader, writer = os.pipe()
    told: list[bytes] = []
    seen: list[list[bytes]] = []
    output = Lines(reader, events, told.append)
    os.write(writer, b"one\ntwo")
    leader.send_signal(signal.SIGKILL)  # which who follows it waits for
    one = Followed(leader.pid, events, lambda: seen.append([*told]), leader, output)
    os.close(writer)
    wait(events, lambda: not one.living)
    assert seen == [[b"one", b"two"]]


def test_line_without_an_end_is_told_in_pieces(events: Events) -> None:
    reader, writer = os.pipe()
    told: list[bytes] = []
    output = Lines(reader, events, told.append)
    os.write(writer, b"x" * (3 * CHUNK) + b"\nlast\n")
    wait(events, lambda: told[-1:] == [b"last"])
    assert max(map(len, told)) <= 2 * CHUNK
    output.close()
    output.close()
    assert output.read() is False
    os.close(writer)
