# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which terminals have lines taken back, who gets heartbeats instead, and what is used of Ansible."""

from __future__ import annotations

import ast
import inspect
import io

import pytest
import yaml
from ansible_collections.gpu.node.plugins.callback import progress
from ansible_collections.gpu.node.plugins.plugin_utils.progress import live
from ansible_collections.gpu.node.plugins.plugin_utils.progress.live import Work, rows
from ansible_collections.gpu.node.plugins.plugin_utils.progress.text import Names


class TerminalOutput(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "moves"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "CI": "false"}, True),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_a_terminal_that_can_not_or_shall_not_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, moves: bool
) -> None:
    for name in ("TERM", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr("sys.stdout", TerminalOutput())
    assert live.is_live() is moves
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert not live.is_live()


def test_no_lines_where_none_are_asked_for() -> None:
    assert rows({"n1": Work("Build", begun=0.0)}, Names(9), 10.0, (80, 0)) == []


def test_a_task_is_told_of_each_minute_by_default() -> None:
    options = yaml.safe_load(progress.DOCUMENTATION)["options"]
    assert options["progress_heartbeat"]["default"] == 60
    assert options["progress_lines"]["default"] == 8


def test_nothing_that_ansible_core_marks_as_deprecated_is_used() -> None:
    used = {
        one.attr
        for one in ast.walk(ast.parse(inspect.getsource(progress)))
        if isinstance(one, ast.Attribute)
    }
    assert not used & {"_host", "_task", "_result", "task_fields", "_task_fields", "v2_on_any"}
    assert {"host", "task", "result"} <= used
