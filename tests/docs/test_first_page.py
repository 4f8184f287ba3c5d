# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the first page and the page of the roles have to show, whatever else they say."""

from __future__ import annotations

import re

import pytest

from tests.docs.tables import examples, pages

README = (pages.ROOT / "README.md").read_text()


def test_each_role_has_an_example() -> None:
    path = pages.ROOT / "docs/operations/roles.md"
    page, plays = (
        path.read_text(),
        [one for one in examples.examples(path) if examples.is_playbook(one.data)],
    )
    missing = []
    for role in examples.ROLES:
        part = page.partition(f"\n### {role}\n")[2].partition("\n#")[0]
        shown = [one.data[0]["roles"] for one in plays if one.text in part]
        named = [one["role"] if isinstance(one, dict) else one for roles in shown for one in roles]
        missing += [] if f"gpu.node.{role}" in named else [role]
    assert missing == []


def test_the_quick_start_comes_first_and_can_be_followed() -> None:
    text = README.partition("\n## Quick start\n")[2]
    part = text.partition("\n## ")[0]
    inventory = pages.blocks(part, "yaml")[0]
    assert inventory.startswith("# inventory.yml\n")
    commands = pages.blocks(part, "console")[0].splitlines()
    assert all(one.startswith("$ ") for one in commands)
    assert commands[0] == "$ ansible-galaxy collection install gpu-node-*.tar.gz"
    named = re.findall(r"-i inventory.yml gpu\.node\.(\w+)", "\n".join(commands))
    assert all((pages.ROOT / f"playbooks/{one}.yml").exists() for one in named)
    assert "gpu_nodes" in named


def test_the_first_page_says_what_for_whom_and_what_it_needs() -> None:
    titles = pages.HEADING.findall(pages.FENCED.sub("", README))
    assert titles[:4] == ["gpu.node", "Prerequisites", "Quick start", "The demo"]
    screen = README.partition("## Prerequisites")[0]
    assert "For whom" in screen
    assert "What it does not do" in screen
    for system in ("Debian 12", "Debian 13", "Ubuntu", "RHEL", "Fedora", "Amazon Linux", "SLES"):
        assert system in README.partition("## Prerequisites")[2].partition("## Quick start")[0]


@pytest.mark.parametrize("kind", ["playbooks", "plugins/modules", "roles"])
def test_the_first_page_lists_what_there_is(kind: str) -> None:
    folder = pages.ROOT / kind
    there = {one.stem for one in folder.iterdir() if one.suffix in (".yml", ".py")}
    if kind == "roles":
        there = {one.name for one in folder.iterdir()} - {"common", "node_labels"}
    assert {one for one in there if f"| `gpu.node.{one}` |" not in README} == set()
