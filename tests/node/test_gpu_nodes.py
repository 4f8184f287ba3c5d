# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The playbook on simulated nodes, seen through the events of ansible-runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

MIG = {
    "version": "v1",
    "mig-configs": {
        "one-each": [
            {"devices": [0], "mig-enabled": False, "mig-devices": {}},
            {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.5gb": 2, "3g.20gb": 1}},
        ]
    },
}
MODULE_CALL_BUDGET = 2  # as README has it
# What Ansible does on the controller: where it is killed there, the node is as it was before.
CONTROLLER = {"assert", "debug", "fail", "include_role", "include_tasks", "meta", "set_fact"}
CONTROLLER |= {"import_role", "import_tasks", "validate_argument_spec"}

pytestmark = pytest.mark.node


@pytest.mark.long
def test_interrupted_at_every_task_a_repeated_run_ends_converged(
    make_node: Callable[..., Node],
) -> None:
    """Kill ansible as each task begins, in turn; the last run must find its way from there."""
    node = make_node("killed", "a100-40", 2, mig_config=MIG)
    seen: set[str] = set()

    def at_a_new_task(event: dict[str, Any]) -> bool:
        data = event.get("event_data", {})
        name = data.get("task", "")
        if event["event"] != "runner_on_start" or name in seen:
            return False
        if data.get("task_action", "").rpartition(".")[2] in CONTROLLER:
            return False
        seen.add(name)
        return True

    for _round in range(40):
        interrupted = node.play(stop_when=at_a_new_task)
        if not interrupted.killed:
            break
        assert not interrupted.ok
    last = node.play()
    assert last.ok, last.message()
    assert len(seen) >= 8
    assert node.allocatable() == {"gpu": 1, "mig-1g.5gb": 2, "mig-3g.20gb": 1}

    again = node.play()
    assert again.ok, again.message()
    assert again.changed() == []
    calls = again.module_calls()
    assert len(calls) <= MODULE_CALL_BUDGET, calls

    silent = node.play(cmdline="--check --diff")
    assert silent.ok, silent.message()
    assert silent.changed() == []


def test_check_mode_on_a_fresh_node_tells_every_step_and_changes_nothing(
    make_node: Callable[..., Node],
) -> None:
    node = make_node("check", "a100-40", 2, mig_config=MIG)
    before = node.run(
        "sh", "-c", "dpkg-query -W | sha256sum; find /etc /opt -type f | sort | sha256sum"
    )
    checked = node.play(cmdline="--check --diff")
    assert checked.ok, checked.message()
    assert len(checked.module_calls()) == 1
    parts = checked.plan()
    text = "\n".join(step["summary"] for one in parts.values() for step in one["steps"])
    for word in ("nvidia-smi", "enable_cdi", "/opt/gpu-node", "one-each"):
        assert word in text, f"{word} is not in:\n{text}"
    after = node.run(
        "sh", "-c", "dpkg-query -W | sha256sum; find /etc /opt -type f | sort | sha256sum"
    )
    assert after == before

    unknown = node.play(mig_confg={})
    assert not unknown.ok
    assert "did you mean mig_config" in unknown.message()
    ill_typed = node.play(nvidia_driver_hold="perhaps")
    assert not ill_typed.ok
    assert "nvidia_driver_hold" in ill_typed.message()
    assert node.run("sh", "-c", "dpkg-query -W | sha256sum").split()[0] == before.split()[0]


def test_node_without_gpu_is_skipped_or_refused(make_node: Callable[..., Node]) -> None:
    node = make_node("bare", "none", 0)
    skipped = node.play()
    assert skipped.ok, skipped.message()
    assert "has no NVIDIA GPU" in skipped.message()
    assert skipped.changed() == []
    refused = node.play(gpu_nodes_require_gpu=True)
    assert not refused.ok
    assert "gpu_nodes_require_gpu" in refused.message()
