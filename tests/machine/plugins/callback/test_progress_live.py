# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What nodes are doing, on a terminal and in a log."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.fakes.plays.plays import Play
from tests.fakes.plays.terminal import on_terminal

SLOW = {"name": "Build {{ inventory_hostname }}", "speaks": {"sleep": 3.5, "warn": ["slow"]}}
QUICK = {"name": "Look", "speaks": {"answer": {"steps": [{"summary": "a"}, {"summary": "b"}]}}}


def test_a_terminal_says_what_each_node_does_and_for_how_long(play: Play) -> None:
    lines, frames = on_terminal(play, [QUICK, SLOW, QUICK], hosts=("n1", "n22"))
    live = [[one for one in frame if one.startswith("  . ")] for frame in frames]
    both = [[line.split() for line in one] for one in live if len(one) == 2]
    assert [words[2:] for words in both[0]] == [
        ["s", "n1", "Build", "n1"],
        ["s", "n22", "Build", "n1"],
    ]
    seconds = {int(words[1]) for one in both for words in one}
    assert len(seconds) > 1
    assert max(seconds) < 60
    assert max(map(len, live)) == 2
    assert not [line for line in lines if line.startswith("  . ")]
    log = play.run([QUICK, SLOW, QUICK], hosts=("n1", "n22"), COLUMNS="80")
    assert sorted(map(plain, lines)) == sorted(map(plain, [*log.splitlines(), ""]))


def plain(line: str) -> str:
    """Return a line without its times."""
    return re.sub(r"\d+\.\d s", "s", line)


def test_what_ansible_itself_says_does_not_run_into_the_lines(play: Play) -> None:
    each = {"name": "Speak up", "speaks": {"sleep": 0.8}, "loop": [1, 2, 3]}
    hosts = ("n1", "n2", "n3")
    lines, frames = on_terminal(play, [each], hosts=hosts, settings={"ANSIBLE_VERBOSITY": "3"})
    assert any(line.startswith("  . ") for frame in frames for line in frame)
    assert sum(line.startswith("<n2> EXEC") for line in lines) >= 3
    assert not [line for line in lines if re.search(r"  \. +\d+ s", line)]


@pytest.mark.parametrize("columns", [30, 60])
def test_lines_of_what_is_done_fit(play: Play, columns: int) -> None:
    name = "a-gpu-node-with-a-very-long-name.rack-7.example.com"
    _lines, frames = on_terminal(play, [SLOW], columns=columns, hosts=(name,))
    live = [one for frame in frames for one in frame if one.startswith("  . ")]
    assert live
    assert max(map(len, live)) < columns


def test_more_nodes_than_lines_are_counted(play: Play) -> None:
    settings = {"GPU_NODE_PROGRESS_LINES": "2", "ANSIBLE_FORKS": "5"}
    _lines, frames = on_terminal(play, [SLOW], hosts=("n1", "n2", "n3", "n4"), settings=settings)
    assert any("  . and 3 more nodes" in frame for frame in frames)


def test_retries_and_items_are_told_while_they_last(play: Play) -> None:
    fails = {"fail": "no", "sleep": 0.7}
    waits = {"name": "Wait", "speaks": fails, "register": "x", "until": "x is success"}
    each = {"name": "Each", "speaks": {"sleep": 0.8}, "loop": [1, 2, 3]}
    tasks = [{**waits, "retries": 3, "delay": 0, "ignore_errors": True}, each]
    _lines, frames = on_terminal(play, tasks)
    seen = "\n".join(line for frame in frames for line in frame)
    assert "Wait (attempt 3 of 4)" in seen
    assert "Each (2 items done)" in seen


def test_a_terminal_is_left_clean_after_an_interrupt(play: Play) -> None:
    lines, frames = on_terminal(play, [{**SLOW, "speaks": {"sleep": 30}}], end=2.5)
    assert any(line.startswith("  . ") for frame in frames for line in frame)
    assert not [line for line in lines if line.startswith("  . ")]


def test_a_question_is_not_overwritten(play: Play) -> None:
    pause = {"name": "Pause", "ansible.builtin.pause": {"seconds": 2, "prompt": "Build now?"}}
    lines, frames = on_terminal(play, [pause])
    assert any("Build now?" in line for line in lines)
    assert not [line for frame in frames for line in frame if line.startswith("  . ")]


@pytest.mark.parametrize(
    "settings", [{"TERM": "dumb"}, {"CI": "true"}, {"GPU_NODE_PROGRESS_LINES": "0"}]
)
def test_a_terminal_that_can_not_or_shall_not_is_left_alone(
    play: Play, settings: dict[str, str]
) -> None:
    play.environment = lambda **more: {**Play.environment(play, **more), **settings}  # type: ignore[method-assign]
    _lines, frames = on_terminal(play, [SLOW])
    assert not [line for frame in frames for line in frame if line.startswith("  . ")]


def test_a_log_gets_a_heartbeat(play: Play) -> None:
    text = play.run([SLOW], hosts=("n1", "n2"), GPU_NODE_PROGRESS_HEARTBEAT="1")
    beats = [line for line in text.splitlines() if line.endswith("  Build n1: still running")]
    assert re.fullmatch(r"  \. +[1-9] s  (n1|n2|n1, n2)  Build n1: still running", beats[0])
    assert {"n1", "n2"} <= {word.strip(",") for line in beats for word in line.split()}
    assert "\x1b" not in text


def test_the_heartbeat_can_be_set_in_ansible_cfg_and_is_a_minute(play: Play) -> None:
    assert "still running" not in play.run([SLOW])
    (play.folder / "ansible.cfg").write_text("[callback_progress]\nprogress_heartbeat = 1\n")
    assert "n1  Build n1: still running" in play.run([SLOW])


def test_two_playbooks_in_one_go(play: Play) -> None:
    play.command([QUICK])
    (play.folder / "first.yml").write_bytes((play.folder / "play.yml").read_bytes())
    settings = {"GPU_NODE_PROGRESS_HEARTBEAT": "1"}
    command = [*play.command([SLOW]), "first.yml", "play.yml"]
    done = subprocess.run(
        command, cwd=play.folder, env=play.environment(**settings), check=True, capture_output=True
    )
    assert done.stdout.count(b"s in all") == 3
    assert done.stdout.count(b"still running") >= 2
