# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the first page and the pages behind it have to show, whatever else they say."""

from __future__ import annotations

import re

import pytest

from tests.docs.tables import examples, pages

README = (pages.ROOT / "README.md").read_text()
CONTENTS, SYSTEMS = (
    (pages.ROOT / f"docs/reference/{name}.md").read_text() for name in ("contents", "systems")
)
LONGEST = 120  # lines, of which the quick start begins on the first screen


def test_each_role_has_an_example() -> None:
    shown: dict[str, list[str]] = {}
    for name in ("roles", "other-roles"):
        path = pages.ROOT / f"docs/reference/{name}.md"
        page = path.read_text()
        for one in filter(lambda one: examples.is_playbook(one.data), examples.examples(path)):
            above = pages.HEADING.findall(pages.FENCED.sub("", page.partition(one.text)[0]))[-1]
            roles = one.data[0]["roles"]
            shown[above] = [each["role"] if isinstance(each, dict) else each for each in roles]
    assert [one for one in examples.ROLES if f"gpu.node.{one}" not in shown.get(one, [])] == []


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


def test_the_first_page_says_what_state_it_is_in_then_how_to_start_and_where_to_go_on() -> None:
    titles = pages.HEADING.findall(pages.FENCED.sub("", README))
    assert titles[:4] == ["gpu.node", "Quick start", "Where to begin", "For whom"]
    assert len(README.splitlines()) <= LONGEST
    above = README.partition("## Quick start")[0]
    assert len(above.splitlines()) < 12
    assert "no whole node was brought up on hardware yet" in above
    doors = README.partition("## Where to begin")[2].partition("\n## ")[0]
    for begun in ("kubeadm", "k3s or RKE2", "Slurm", "Docker", "GPU operator"):
        assert begun in doors


def test_each_system_is_named_with_what_it_has_to_have() -> None:
    needs = SYSTEMS.partition("## Prerequisites")[2].partition("\n## ")[0]
    for system in ("Debian 12", "Debian 13", "Ubuntu", "RHEL", "Fedora", "Amazon Linux", "SLES"):
        assert system in needs
        assert system.split()[0] in README


@pytest.mark.parametrize("kind", ["playbooks", "plugins/modules", "roles"])
def test_the_page_of_the_contents_lists_what_there_is(kind: str) -> None:
    folder = pages.ROOT / kind
    table = CONTENTS.partition(f"\n## {folder.name.title()}\n")[2].partition("\n## ")[0]
    there = {one.stem for one in folder.iterdir() if one.suffix in (".yml", ".py")}
    if kind == "roles":
        there = {one.name for one in folder.iterdir()} - {"common", "node_labels"}
    assert {one for one in there if f"| `gpu.node.{one}` |" not in table} == set()
