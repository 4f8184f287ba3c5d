# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What runs on the controller runs as the user there, whatever the nodes' variables say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.paths import REPOSITORY

FILES = sorted(
    path
    for folder in ("roles/*/tasks", "playbooks", "playbooks/*", "playbooks/*/*")
    for path in REPOSITORY.glob(f"{folder}/*.yml")
)
# What changes nothing but variables is run by Ansible itself.
VARIABLES = {"ansible.builtin.set_fact"}


def delegated(tasks: Any) -> Iterator[dict[str, Any]]:
    """Yield the tasks that are for the controller, also those in blocks."""
    for one in tasks if isinstance(tasks, list) else ():
        for part in ("block", "rescue", "always", "tasks"):
            yield from delegated(one.get(part))
        if one.get("delegate_to") == "localhost" and not VARIABLES & one.keys():
            yield one
        if one.get("hosts") == "localhost":
            yield one


def test_nothing_on_the_controller_becomes_root() -> None:
    """A variable ansible_become of the nodes wins over the keyword."""
    found = [(path, one) for path in FILES for one in delegated(yaml.safe_load(path.read_text()))]
    assert len(found) >= 8
    off = [
        f"{path.relative_to(REPOSITORY)}: {one['name']}"
        for path, one in found
        if one.get("become") is not False or one["vars"].get("ansible_become") is not False
    ]
    assert off == []
