# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the tests stand on: waits that end, an alarm by the processor, and a watch over what is pure."""

from __future__ import annotations

import itertools
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from tests.fakes.clock import Clock
from tests.support import purity, waiting
from tests.support.environment import foreign
from tests.support.waiting import alarm


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that waits go by."""
    found = Clock()
    monkeypatch.setattr(waiting, "time", found)
    return found


def test_the_first_answer_that_is_true_is_returned(clock: Clock) -> None:
    assert waiting.eventually(iter([0, "", "there"]).__next__) == "there"
    assert waiting.eventually(itertools.count().__next__, 5) == 5
    assert len(clock.slept) == 2 + 5


def test_a_command_that_fails_is_no_answer_yet(clock: Clock) -> None:
    def look() -> str:
        if len(clock.slept) < 3:
            raise subprocess.CalledProcessError(1, "look")
        return "there"

    assert waiting.eventually(look) == "there"


def test_a_wait_ends_with_the_answer_and_the_stacks_of_all_threads(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        AssertionError, match=rf"still 1 and not 2 after {waiting.LIMIT:.0f} seconds$"
    ):
        waiting.eventually(lambda: 1, 2)
    assert "test_support.py" in capsys.readouterr().err
    assert clock.now > waiting.LIMIT


def test_what_stays_is_looked_at_until_enough_has_passed(clock: Clock) -> None:
    passes = itertools.count()
    waiting.unchanged(lambda: "same", "same", passes.__next__, 3)
    assert next(passes) == 4
    answers = itertools.chain(["same"] * 2, itertools.repeat("other"))
    with pytest.raises(AssertionError, match="'other' and no longer 'same'"):
        waiting.unchanged(answers.__next__, "same", passes.__next__, 9)
    assert clock.slept


def test_a_pattern_that_backtracks_is_ended() -> None:
    with pytest.raises(AssertionError, match="seconds of the processor"), alarm(0.05):
        re.fullmatch(r"(a|aa)+", "a" * 60 + "b")


def test_an_alarm_within_another_leaves_it_on() -> None:
    def within() -> None:
        with alarm(5):
            pass
        re.fullmatch(r"(a|aa)+", "a" * 60 + "b")

    with pytest.raises(AssertionError, match=r"more than 0\.2 seconds"), alarm(0.2):
        within()


def test_a_pure_test_is_kept_from_what_others_may(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("may be written")
    with pytest.raises(purity.ImpureError, match="starts a process"):
        subprocess.run(["true"], check=False)
    with pytest.raises(purity.ImpureError, match="starts a process"):
        os.fork()
    with pytest.raises(purity.ImpureError, match="sleeps for 1 seconds"):
        purity.time.sleep(1)
    with socket.socket() as one, pytest.raises(purity.ImpureError, match="uses the network"):
        one.connect(("127.0.0.1", 1))
    with pytest.raises(purity.ImpureError, match="outside of its folder"):
        Path(__file__).with_name("new").touch()


def test_variables_of_the_caller_that_would_change_an_answer_are_taken_away() -> None:
    theirs = ["ANSIBLE_STDOUT_CALLBACK", "KUBECONFIG", "PYTHONUNBUFFERED", "https_proxy", "LC_ALL"]
    assert [name for name in theirs if not foreign(name)] == []
    ours = {"ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_INJECT_FACT_VARS", "ANSIBLE_LOCALHOST_WARNING"}
    ours |= {"LC_ALL", "PYTHONPATH"}
    assert {name for name in os.environ if foreign(name)} == ours
    assert not foreign("KUBE_BIN")
