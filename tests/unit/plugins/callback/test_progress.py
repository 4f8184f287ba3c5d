# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The display of a playbook's progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.callback.progress import CallbackModule


class Screen:
    """Keeps what is shown."""

    verbosity = 0

    def __init__(self) -> None:
        self.lines: list[str] = []

    def display(self, text: str, **_options: Any) -> None:
        self.lines += text.splitlines()

    def text(self) -> str:
        return "\n".join(self.lines)


def result(action: str, check_mode: bool = False, **data: Any) -> SimpleNamespace:
    task = SimpleNamespace(
        action=action, _uuid="1", check_mode=check_mode, get_name=lambda: f"role : Do {action}"
    )
    return SimpleNamespace(
        _host=SimpleNamespace(get_name=lambda: "node-1"), _task=task, _result=data
    )


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def callback(screen: Screen) -> CallbackModule:
    return CallbackModule(display=screen)


def test_change_shows_its_steps(callback: CallbackModule, screen: Screen) -> None:
    callback.v2_runner_on_ok(result("gpu.node.mig", changed=True, steps=[{"summary": "create 1g"}]))
    assert screen.lines[0].split() == ["+", "node-1", "Do", "gpu.node.mig"]
    assert screen.lines[1].strip() == "- create 1g"


@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        ("create 1g", "would create 1g"),
        ("GPU 6: destroy 1g", "GPU 6: would destroy 1g"),
        ("/etc/cdi/nvidia.yaml: add 0:0", "/etc/cdi/nvidia.yaml: would add 0:0"),
        ("refresh the lists: apt-get update", "would refresh the lists: apt-get update"),
    ],
)
def test_check_mode_says_would(
    callback: CallbackModule, screen: Screen, summary: str, shown: str
) -> None:
    done = result("gpu.node.mig", check_mode=True, changed=True, steps=[{"summary": summary}])
    callback.v2_runner_on_ok(done)
    assert screen.lines[1].strip() == f"- {shown}"


@pytest.mark.parametrize("action", ["ansible.builtin.include_role", "assert", "set_fact"])
def test_work_of_the_controller_is_silent_and_not_counted(
    callback: CallbackModule, screen: Screen, action: str
) -> None:
    callback.v2_runner_on_ok(result(action))
    assert screen.lines == []
    assert callback._calls["node-1"] == 0


def test_failure_shows_its_reason(callback: CallbackModule, screen: Screen) -> None:
    callback.v2_runner_on_failed(result("gpu.node.mig", msg="mig: no room\nNext step: less"))
    assert [line.strip() for line in screen.lines[1:]] == ["mig: no room", "Next step: less"]
    assert screen.lines[0].lstrip().startswith("!")


def test_skipped_node_is_told_why(callback: CallbackModule, screen: Screen) -> None:
    callback.v2_runner_on_ok(result("ansible.builtin.debug", msg="has no NVIDIA GPU"))
    assert screen.lines[0].split(maxsplit=2) == ["i", "node-1", "has no NVIDIA GPU"]


def test_summary_counts_what_ran_on_the_node(callback: CallbackModule, screen: Screen) -> None:
    callback.v2_runner_on_ok(result("gpu.node.gpu_info"))
    callback.v2_runner_on_ok(result("ansible.builtin.set_fact"))
    callback.v2_runner_on_failed(result("gpu.node.mig", msg="no"))
    counts = {"failures": 1, "unreachable": 0, "changed": 2, "ok": 3}
    stats = SimpleNamespace(processed={"node-1": 1}, summarize=lambda _host: counts)
    callback.v2_playbook_on_stats(stats)
    assert "node-1: changed=2 ok=3 failed=1 unreachable=0 module calls=2" in screen.text()
