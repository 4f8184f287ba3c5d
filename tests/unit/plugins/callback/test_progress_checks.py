# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the display shows of a validation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.gpu.node.plugins.callback.progress import CallbackModule


class Screen:
    """Keeps what is displayed."""

    verbosity = 0

    def __init__(self) -> None:
        self.lines: list[str] = []

    def display(self, text: str, **_options: Any) -> None:
        self.lines.append(text)


def test_a_validation_shows_its_checks_by_their_state() -> None:
    screen = Screen()
    checks = [
        {"name": "driver", "state": "passed", "cause": ""},
        {"name": "MIG", "state": "skipped", "cause": "no MIG layout is declared"},
        {"name": "labels", "state": "failed", "cause": "\x1b[2Jgone"},
        {"name": "GPUs\x1b[2J", "state": "passed", "cause": ""},
    ]
    task = SimpleNamespace(
        action="gpu.node.validate", _uuid="1", check_mode=False, get_name=lambda: "Check the node"
    )
    host = SimpleNamespace(get_name=lambda: "node-1")
    result = SimpleNamespace(_result={"checks": checks}, _task=task, _host=host)
    CallbackModule(display=screen).v2_runner_on_ok(result)
    shown = [line.strip() for line in screen.lines[1:]]
    assert shown[0].startswith("passed: driver, GPUs")
    assert shown[1:] == ["skipped: MIG (no MIG layout is declared)", "failed: labels"]
    assert "\x1b" not in "".join(screen.lines)
