# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node says can't steer the terminal of whoever runs the playbook."""

from __future__ import annotations

import unicodedata
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.callback.progress import CallbackModule

EVIL = "\x1b]0;owned\x07\x9b2J\u202egnp\x7f"
LINE = "\n  +   0.1 s  node-2  all is well\r\x1b[1A"


class Screen:
    """Keeps what a terminal would get."""

    verbosity = 0

    def __init__(self) -> None:
        self.written: list[str] = []

    def display(self, text: str, **_options: Any) -> None:
        self.written.append(text)


def result(action: str = "gpu.node.mig", **data: Any) -> SimpleNamespace:
    task = SimpleNamespace(
        action=action, _uuid="1", check_mode=False, get_name=lambda: f"role : {EVIL}"
    )
    return SimpleNamespace(
        _host=SimpleNamespace(get_name=lambda: f"node{EVIL}"), _task=task, _result=data
    )


STEPS = [{"summary": f"end {EVIL}{LINE}"}]
DIFF = {"before": f"a{EVIL}\n", "after": f"\tb{EVIL}\n"}
SAID = [
    ("v2_runner_on_ok", result(changed=True, steps=STEPS)),
    ("v2_runner_on_ok", result("ansible.builtin.debug", msg=f"{EVIL}{LINE}")),
    ("v2_runner_on_failed", result(msg=f"in use by {EVIL}\nNext step: x", steps=STEPS)),
    ("v2_runner_item_on_failed", result(msg=f"in use by {EVIL}\u2028{LINE}")),
    ("v2_runner_on_unreachable", result(msg=f"no route{EVIL}")),
    ("v2_on_file_diff", result(changed=True, diff=DIFF)),
    ("v2_on_file_diff", result(changed=True, diff={"prepared": f"x{EVIL}"})),
]


@pytest.mark.parametrize(("event", "said"), SAID)
def test_s15_a_node_can_not_steer_the_terminal(event: str, said: SimpleNamespace) -> None:
    screen = Screen()
    getattr(CallbackModule(display=screen), event)(said)
    text = "".join(screen.written)
    steering = {one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp")}
    assert steering <= {"\n", "\t"}
    assert r"\x1b" in text
    assert not [line for line in text.splitlines() if line.startswith(LINE.strip("\n")[:20])]


def test_s15_a_reason_keeps_its_lines() -> None:
    screen = Screen()
    CallbackModule(display=screen).v2_runner_on_failed(result(msg="one\ntwo\n"))
    assert [line.strip() for line in screen.written[1:]] == ["one", "two"]
