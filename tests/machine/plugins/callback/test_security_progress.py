# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node says can't steer the terminal of whoever runs the playbook."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from tests.fakes.plays.plays import Play
from tests.fakes.plays.terminal import on_terminal

EVIL = "\x1b]0;owned\x07\x9b2J\u202egnp\x7f"
LINE = "\n  +   0.1 s  node-2  all is well\r\x1b[1A"
NAME = f"node\x1b\x9b2J\u202e{'x' * 60}"
FOUND = {"steps": [{"summary": f"end {EVIL}{LINE}"}], "changed": True}
FOUND |= {
    "diff": {"before": f"a{EVIL}\n", "after": f"\tb{EVIL}\n"},
    f"key{EVIL}": [f"x{EVIL}{LINE}"],
}
SAID: list[dict[str, Any]] = [
    {"name": f"Do {EVIL}", "speaks": {"answer": FOUND, "warn": [f"w{EVIL}{LINE}"]}},
    {"ansible.builtin.debug": {"msg": f"{EVIL}{LINE}"}},
    {"name": "Prepared", "speaks": {"answer": {"changed": True, "diff": {"prepared": f"x{EVIL}"}}}},
    {"name": "Each", "speaks": {"fail": f"in use by {EVIL}\u2028{LINE}"}, "loop": [EVIL]},
    {"name": "Last", "speaks": {"fail": f"in use by {EVIL}\nNext step: x", "answer": FOUND}},
]
SAID[3]["ignore_errors"] = True


@pytest.mark.attack("terminal-escapes")
@pytest.mark.parametrize("words", [(), ("-v", "--check")])
def test_a_node_can_not_steer_the_terminal(play: Play, words: tuple[str, ...]) -> None:
    text = play.run(SAID, "--diff", *words, hosts=(NAME,))
    steering = {one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp")}
    assert steering <= {"\n", "\t"}
    assert r"\x1b" in text
    assert not [line for line in text.splitlines() if line.startswith(LINE.strip("\n")[:20])]


@pytest.mark.attack("terminal-escapes")
def test_a_node_can_not_steer_it_while_a_task_lasts_and_its_line_fits(play: Play) -> None:
    gate = play.gate()
    slow = {"name": f"Do {EVIL}", "speaks": {"gate": str(gate.path)}}
    _lines, frames = on_terminal(play, [slow], ("  . ", gate.open), columns=30, hosts=(NAME,))
    live = [one for frame in frames for one in frame if one.startswith("  . ")]
    assert {unicodedata.category(one) for line in live for one in line} <= set(SHOWN)
    assert max(map(len, live)) < 30


SHOWN = ("Lu", "Ll", "Nd", "Zs", "Po", "Pd", "Ps", "Pe", "Sm", "Pc", "Sc")
