# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The examples of the pages parse, name variables that there are, and are playbooks that Ansible takes."""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.tables import examples, pages, variables

FOUND = [one for page in pages.pages() for one in examples.examples(page)]
SET = [(one, *pair) for one in FOUND for pair in examples.settings(one.data)]
PLAYBOOKS = [one for one in FOUND if examples.is_playbook(one.data)]
ROLES = [one for one in variables.roles() if one != "common"]
PREFIXES = ("gpu_nodes_", "node_labels_", *(f"{role}_" for role in ROLES))


def where(value: Any) -> str:
    return f"{value.page}-{value.number}" if isinstance(value, examples.Example) else ""


def keys(data: Any) -> Iterator[str]:
    """Yield the names that an example gives to values outside of the variables' own values."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield str(name)
            if name not in examples.SPECS:
                yield from keys(value)
    elif isinstance(data, list):
        for one in data:
            yield from keys(one)


def unknown(data: Any) -> dict[str, list[str]]:
    """Return what an example names that looks like a variable of ours and is none, with the nearest."""
    names = {one for one in keys(data) if one.startswith(PREFIXES)} - set(examples.SPECS)
    return {one: difflib.get_close_matches(one, examples.SPECS, 1) for one in names}


def test_there_are_examples() -> None:
    assert len(FOUND) > 60
    assert len(SET) > 70
    assert len(PLAYBOOKS) > 9


@pytest.mark.parametrize(("example", "name", "value"), SET, ids=where)
def test_what_an_example_sets_is_what_the_role_takes(
    example: examples.Example, name: str, value: Any
) -> None:
    if not examples.is_template(value):
        assert examples.refused(name, value) == [], example.page


@pytest.mark.parametrize("example", FOUND, ids=where)
def test_an_example_names_no_variable_that_is_not_there(
    example: examples.Example,
) -> None:
    assert unknown(example.data) == {}


def test_the_checks_see_what_is_wrong() -> None:
    wrong = {"vars": {"mig_selectd": "half", "mig_config": {"mig_x": 1}}}
    assert unknown(wrong) == {"mig_selectd": ["mig_selected"]}
    assert examples.refused("container_runtime_name", "dockr")
    assert examples.refused("device_plugin_wait_timeout", "soon")


@pytest.mark.parametrize("example", PLAYBOOKS, ids=where)
def test_a_playbook_of_a_page_is_one(example: examples.Example, tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(example.text)
    words = ["ansible-playbook", "--syntax-check", "--inventory", "node-1,", "play.yml"]
    done = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("role", ROLES)
def test_each_role_has_an_example(role: str) -> None:
    page = (pages.ROOT / "docs/operations/roles.md").read_text()
    part = page.partition(f"\n### {role}\n")[2].partition("\n#")[0]
    (play,) = [one for one in PLAYBOOKS if one.text in part and one.page.endswith("roles.md")]
    roles = [one["role"] if isinstance(one, dict) else one for one in play.data[0]["roles"]]
    assert f"gpu.node.{role}" in roles


def test_the_quick_start_comes_first_and_can_be_followed() -> None:
    text = (pages.ROOT / "README.md").read_text().partition("\n## Quick start\n")[2]
    part = text.partition("\n## ")[0]
    inventory = pages.blocks(part, "yaml")[0]
    assert inventory.startswith("# inventory.yml\n")
    commands = pages.blocks(part, "console")[0].splitlines()
    assert all(one.startswith("$ ") for one in commands)
    assert commands[0] == "$ ansible-galaxy collection install gpu-node-*.tar.gz"
    named = re.findall(r"-i inventory.yml gpu\.node\.(\w+)", "\n".join(commands))
    assert all((pages.ROOT / f"playbooks/{one}.yml").exists() for one in named)
    assert "gpu_nodes" in named
