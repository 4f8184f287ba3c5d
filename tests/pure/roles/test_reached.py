# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What of a change in service asks the node is seen to have reached it."""

from __future__ import annotations

from tests.support.tasks import Task, chosen

FOLDERS = ("roles/*/tasks", "roles/*/tasks/*", "playbooks/tasks", "playbooks/tasks/*")
# What Ansible does without the node.
CONTROLLER = {"assert", "debug", "fail", "meta", "set_fact", "validate_argument_spec"}
CONTROLLER |= {"import_role", "import_tasks", "include_role", "include_tasks"}
HERE = {f"ansible.builtin.{name}" for name in CONTROLLER}


def asks(one: Task) -> bool:
    """Return whether a task asks the node."""
    modules = {key for key in one if key.startswith(("ansible.builtin.", "gpu.node."))} - HERE
    return bool(modules) and one.get("delegate_to") != "localhost"


def test_each_task_that_asks_the_node_registers_what_it_is_told() -> None:
    """Ansible says it nowhere else, where it does not take a node that does not answer out of the play."""
    found = list(chosen(asks, *FOLDERS))
    assert len(found) >= 30
    off = [
        f"{path}: {one['name']}"
        for path, one in found
        if not str(one.get("register", "")).startswith("__")
    ]
    assert off == []
