# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What others write is read without waiting for it, and up to a size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.tools import bounded

from tests.support.helper_process import kill
from tests.support.waiting import LIMIT


def run(script: str, text: str = "", seconds: float = LIMIT) -> tuple[int, str, str]:
    done = bounded.run(["sh", "-c", script], text, {"PATH": os.environ["PATH"], "A": "b"}, seconds)
    return done.rc, done.out, done.err


def test_a_program_answers_with_the_variables_and_the_text_that_it_is_given() -> None:
    assert run('read line; echo "$line $A $HOME"; echo no >&2; exit 3', "yes\n") == (
        3,
        "yes b \n",
        "no\n",
    )
    assert run("exec <&-; exit 1", "not read" * 4096)[0] == 1


@pytest.mark.parametrize(
    ("script", "seconds", "why"),
    [
        ("exec sleep infinity", 0.5, "it takes too long"),
        ("exec >&- 2>&-; exec sleep infinity", 0.5, "it takes too long"),
        ("exec yes", LIMIT, "it tells more than 65536 bytes"),
        ("exec yes >&2", LIMIT, "it tells more than 65536 bytes"),
    ],
)
def test_one_that_does_not_come_to_an_end_is_killed(script: str, seconds: float, why: str) -> None:
    assert run(script, seconds=seconds) == (124, "", why)


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Path]:
    """A file for the number of a process that a program leaves, and that is ended here."""
    path = tmp_path / "left"
    yield path
    kill(int(path.read_text()))


def test_one_whose_output_another_process_has_is_not_waited_for(left: Path) -> None:
    script = f"sleep infinity & echo $! > {left}; exit 0"
    assert run(script, seconds=0.5) == (124, "", "it takes too long")


def test_one_that_is_not_there_can_not_be_started() -> None:
    with pytest.raises(FileNotFoundError):
        bounded.run(["/none"], "", {}, 1)


def test_what_can_not_be_read_is_peeked_at_in_vain(tmp_path: Path) -> None:
    assert bounded.peek(tmp_path / "none") == bounded.peek(tmp_path) == ""
    (tmp_path / "binary").write_bytes(b"\xff" * bounded.LONGEST)
    assert bounded.peek(tmp_path / "binary") == "\ufffd" * bounded.LONGEST


@pytest.mark.parametrize("end", ["\n", "\0"])
def test_a_line_that_is_cut_at_the_bound_is_left_out(tmp_path: Path, end: str) -> None:
    path = tmp_path / "file"
    path.write_text(f"first{end}second{end}")
    assert bounded.peek(path, end) == f"first{end}second{end}"
    assert bounded.peek_lines(path, end) == (["first", "second"], False)
    path.write_text(f"first{end}{'x' * bounded.LONGEST}")
    assert bounded.peek(path, end) == f"first{end}"
    assert bounded.peek_lines(path, end) == (["first"], True)
    path.write_text("x" * (bounded.LONGEST + 1))
    assert bounded.peek_lines(path, end) == ([], True)
    path.write_text("")
    assert bounded.peek_lines(path, end) == ([], False)
