# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What runs on the controller runs as the user there, whatever the nodes' variables say."""

from __future__ import annotations

from tests.support.tasks import Task, chosen

FOLDERS = ("roles/*/tasks", "playbooks", "playbooks/*", "playbooks/*/*")
# What changes nothing but variables is run by Ansible itself.
VARIABLES = {"ansible.builtin.set_fact"}


def is_delegated(one: Task) -> bool:
    """Return whether a task or a play is for the controller."""
    there = one.get("delegate_to") == "localhost" and not VARIABLES & one.keys()
    return there or one.get("hosts") == "localhost"


def test_nothing_on_the_controller_becomes_root() -> None:
    """A variable ansible_become of the nodes wins over the keyword."""
    found = list(chosen(is_delegated, *FOLDERS))
    assert len(found) >= 8
    off = [
        f"{path}: {one['name']}"
        for path, one in found
        if one.get("become") is not False or one["vars"].get("ansible_become") is not False
    ]
    assert off == []
