# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Programs that hang, leave others behind, or write without end: none of them outlives its time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.limited import Ended, Programs

from tests.support.helper_process import runs
from tests.support.waiting import eventually

SH = "/bin/sh"


class Watch:
    """A clock that stands until what a program writes has been seen."""

    def __init__(self, until: bytes = b"") -> None:
        self.until, self.seen, self.late = until, b"", False

    def now(self) -> float:
        return 1e9 if self.late else 0.0

    def take(self, data: bytes) -> None:
        self.seen = (self.seen + data)[-(1 << 16) :]
        self.late = self.late or (bool(self.until) and self.until in self.seen)


def run(watch: Watch, script: str) -> Ended:
    return Programs(Host(), watch.now).run([SH, "-c", script], watch.take, seconds=60)


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Path]:
    return tmp_path / "pids"


def gone(pids: Path) -> bool:
    return not any(map(runs, pids.read_text().split()))


def test_what_a_program_writes_is_handed_on_with_its_errors() -> None:
    watch = Watch()
    assert run(watch, "echo out; echo err >&2; exit 3") == Ended(3)
    assert watch.seen == b"out\nerr\n"


def test_a_program_that_hangs_is_killed_with_all_that_it_started(pids: Path) -> None:
    watch = Watch(b"begun")
    script = f"sleep 1000 & echo $$ $! > {pids}; echo begun; wait"
    ended = run(watch, script)
    assert ended.rc is None
    assert ended.problem == "it had not ended after 60 seconds and was killed"
    assert watch.seen == b"begun\n"
    eventually(lambda: gone(pids))


def test_what_a_program_leaves_behind_is_killed_and_not_waited_for(pids: Path) -> None:
    watch = Watch()
    assert run(watch, f"sleep 1000 & echo $! > {pids}; echo done") == Ended(0)
    assert watch.seen == b"done\n"
    eventually(lambda: gone(pids))


def test_a_program_that_writes_without_end_is_killed(pids: Path) -> None:
    watch = Watch(b"line 99999")
    ended = run(watch, f"echo $$ > {pids}; seq -f 'line %.0f' 1 1000000000")
    assert ended.rc is None
    eventually(lambda: gone(pids))


def test_a_program_that_closes_its_output_and_hangs_is_killed(pids: Path) -> None:
    watch = Watch(b"begun")
    ended = run(watch, f"echo $$ > {pids}; echo begun; exec >/dev/null 2>&1; exec sleep 1000")
    assert ended.rc is None
    eventually(lambda: gone(pids))


def test_a_program_has_no_input_to_wait_for() -> None:
    watch = Watch()
    assert run(watch, "cat; echo end") == Ended(0)
    assert watch.seen == b"end\n"


def test_who_can_t_take_more_ends_the_program(pids: Path) -> None:
    def take(_data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        Programs(Host()).run([SH, "-c", f"echo $$ > {pids}; echo x; sleep 1000"], take, seconds=60)
    eventually(lambda: gone(pids))


def test_a_program_that_is_not_there_is_told() -> None:
    found, ended = Programs(Host()).answer(["no-such-program"], 100, seconds=60)
    assert (found, ended) == (b"", Ended(None, "no-such-program is not installed"))


def test_of_an_answer_no_more_is_kept_than_is_asked_for() -> None:
    found, ended = Programs(Host()).answer([SH, "-c", "seq 1 100000"], 10, seconds=60)
    assert (found, ended) == (b"1\n2\n3\n4\n5\n", Ended(0))
