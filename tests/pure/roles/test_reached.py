# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What of a change in service asks the node is seen to have reached it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.paths import REPOSITORY

FILES = sorted(
    path
    for folder in ("roles/*/tasks", "playbooks/tasks", "playbooks/tasks/*")
    for path in REPOSITORY.glob(f"{folder}/*.yml")
)
# What Ansible does without the node.
CONTROLLER = {"assert", "debug", "fail", "meta", "set_fact", "validate_argument_spec"}
CONTROLLER |= {"import_role", "import_tasks", "include_role", "include_tasks"}


def asking(tasks: Any) -> Iterator[dict[str, Any]]:
    """Yield the tasks that ask the node, also those in blocks."""
    for one in tasks or ():
        for part in ("block", "rescue", "always"):
            yield from asking(one.get(part))
        here = {f"ansible.builtin.{name}" for name in CONTROLLER}
        modules = {key for key in one if key.startswith(("ansible.builtin.", "gpu.node."))} - here
        if modules and one.get("delegate_to") != "localhost":
            yield one


def test_each_task_that_asks_the_node_registers_what_it_is_told() -> None:
    """Ansible says it nowhere else, where it does not take a node that does not answer out of the play."""
    found = [(path, one) for path in FILES for one in asking(yaml.safe_load(path.read_text()))]
    assert len(found) >= 30
    off = [
        f"{path.relative_to(REPOSITORY)}: {one['name']}"
        for path, one in found
        if not str(one.get("register", "")).startswith("__")
    ]
    assert off == []
