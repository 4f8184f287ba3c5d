# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What nodes are doing, on a terminal and in a log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tests.fakes.plays.plays import Gate, Play
from tests.fakes.plays.terminal import interrupt, on_terminal

QUICK = {
    "name": "Look",
    "speaks": {"answer": {"steps": [{"summary": "a"}, {"summary": "{{ inventory_hostname }}"}]}},
}


def build(gate: Gate | None) -> dict[str, Any]:
    """Return a task that lasts until its gate is opened."""
    held = {"gate": str(gate.path)} if gate else {}
    return {"name": "Build {{ inventory_hostname }}", "speaks": {"warn": ["slow"], **held}}


def lines_of_work(frames: Iterable[list[str]]) -> list[str]:
    """Return the lines of what is done that were seen."""
    return [line for frame in frames for line in frame if line.startswith("  . ")]


def plain(line: str) -> str:
    """Return a line without its times."""
    return re.sub(r"\d+\.\d s", "s", line)


def test_a_terminal_says_what_each_node_does_while_it_does_it(play: Play) -> None:
    gate, hosts = play.gate(), ("n1", "n22")
    tasks = [QUICK, build(gate), QUICK]
    lines, frames = on_terminal(play, tasks, ("s  n22  Build n1", gate.open), hosts=hosts)
    live = [[one for one in frame if one.startswith("  . ")] for frame in frames]
    said = [[" ".join(line.split()[2:]) for line in one] for one in live]
    assert ["s n1 Build n1", "s n22 Build n1"] in said
    assert max(map(len, live)) == 2
    assert not lines_of_work([lines])
    log = play.run([QUICK, build(None), QUICK], hosts=hosts, COLUMNS="80")
    assert sorted(map(plain, lines)) == sorted(map(plain, [*log.splitlines(), ""]))


def test_what_ansible_itself_says_does_not_run_into_the_lines(play: Play) -> None:
    gate = play.gate()
    each = {"name": "Speak up", "speaks": {"gate": str(gate.path)}, "loop": [1, 2, 3]}
    settings = {"ANSIBLE_VERBOSITY": "3"}
    lines, _frames = on_terminal(
        play, [each], ("s  n3  Speak up", gate.open), hosts=("n1", "n2", "n3"), settings=settings
    )
    assert sum(line.startswith("<n2> EXEC") for line in lines) >= 3
    assert not [line for line in lines if re.search(r"  \. +\d+ s", line)]


def test_more_nodes_than_lines_are_counted_and_all_are_gone_after_an_interrupt(play: Play) -> None:
    settings = {"GPU_NODE_PROGRESS_LINES": "2", "ANSIBLE_FORKS": "5"}
    lines, _frames = on_terminal(
        play,
        [build(play.gate())],
        ("  . and 3 more nodes", lambda: interrupt(play)),
        hosts=("n1", "n2", "n3", "n4"),
        settings=settings,
    )
    assert not lines_of_work([lines])


def test_retries_and_items_are_told_while_they_last(play: Play) -> None:
    gate = play.gate()
    fails = {"fail": "no", "gate": str(gate.path)}
    waits = {"name": "Wait", "speaks": fails, "register": "x", "until": "x is success"}
    waits = {**waits, "retries": 3, "delay": 0, "ignore_errors": True}
    each = {"name": "Each", "speaks": {"gate": str(gate.path)}, "loop": [1, 2, 3]}
    seen = ("Wait", "Wait (attempt 2 of 4)", "Wait (attempt 3 of 4)", "Wait (attempt 4 of 4)")
    items = ("Each", "Each (1 item done)", "Each (2 items done)")
    scenes = [(f"s  n1  {words}", gate.let_through) for words in (*seen, *items)]
    on_terminal(play, [waits, each], *scenes)


def test_a_question_is_not_overwritten(play: Play) -> None:
    pause = {"name": "Pause", "ansible.builtin.pause": {"seconds": 2, "prompt": "Build now?"}}
    lines, frames = on_terminal(play, [pause])
    assert any("Build now?" in line for line in lines)
    assert not lines_of_work(frames)


def test_a_log_gets_a_heartbeat(play: Play) -> None:
    gate = play.gate()
    command = play.command([build(gate)], hosts=("n1", "n2"))
    scene = ("n1, n2  Build n1: still running", gate.open)
    text = play.follow(command, scene, GPU_NODE_PROGRESS_HEARTBEAT="0.1")
    beats = [line for line in text.splitlines() if line.endswith("  Build n1: still running")]
    assert re.fullmatch(r"  \. +\d+ s  (n1|n2|n1, n2)  Build n1: still running", beats[0])
    assert "\x1b" not in text


def test_the_heartbeat_can_be_set_in_ansible_cfg_and_two_playbooks_have_it(play: Play) -> None:
    (play.folder / "ansible.cfg").write_text("[callback_progress]\nprogress_heartbeat = 0.1\n")
    first, second = play.gate(), play.gate()
    play.command([{**build(second), "name": "Test"}])
    (play.folder / "second.yml").write_bytes((play.folder / "play.yml").read_bytes())
    command = [*play.command([build(first)]), "second.yml"]
    scenes = [("Build n1: still running", first.open), ("Test: still running", second.open)]
    text = play.follow(command, *scenes)
    assert text.count("s in all") == 2
