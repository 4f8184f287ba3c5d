# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""README's quick start, word for word, from the tarball in a bare environment of each ansible-core.

The only thing that README does not have is how the node of its inventory is reached, which is in the node's variables.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.environments.needed import made
from tests.machine.release.conftest import bare
from tests.support.paths import REPOSITORY

README = REPOSITORY / "README.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
Start = Callable[[str], dict[str, Any]]


def quick_start(text: str) -> tuple[str, list[str]]:
    """Return the inventory and the commands of a page's quick start."""
    section = re.search(r"^## Quick start\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert section is not None, "README has no section Quick start"
    blocks = BLOCK.findall(section[1])
    inventories = [content for _kind, content in blocks if content.startswith("# inventory.yml")]
    commands = [content for kind, content in blocks if kind == "console"]
    assert len(inventories) == 1
    lines = "".join(commands).splitlines()
    return inventories[0], [one.removeprefix("$ ") for one in lines if one.startswith("$ ")]


def follow(folder: Path, core: Path, commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Run commands in one shell, as a user does; it ends at the first that fails."""
    words = ["bash", "-euo", "pipefail", "-c", "\n".join(commands)]
    env = bare(folder, core)
    return subprocess.run(words, cwd=folder, env=env, check=False, capture_output=True, text=True)


@pytest.fixture
def start_node() -> Iterator[Start]:
    """Return a function that starts a simulated node and returns how it is reached."""
    tool = str(REPOSITORY / "tests/fakes/node/gpunode")
    names = []

    def up(name: str) -> dict[str, Any]:
        names.append(name)
        subprocess.run([tool, "up", name, "--product", "a100-40", "--gpus", "2"], check=True)
        done = subprocess.run([tool, "inventory", name], check=True, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(done.stdout)["gpu_nodes"]["hosts"][name]
        return found

    yield up
    for name in names:
        subprocess.run([tool, "down", name], check=True)


def test_a_quick_start_is_read_as_a_user_reads_it() -> None:
    page = "# x\n## Quick start\n```yaml\n# inventory.yml\na: b\n```\n```console\n$ one  # why\nsaid\n$ two\n```\n"
    page += "```yaml\n# another.yml\n```\n## Later\n```console\n$ three\n```\n"
    assert quick_start(page) == ("# inventory.yml\na: b\n", ["one  # why", "two"])


@pytest.mark.long
@pytest.mark.node
def test_the_quick_start_works_word_for_word(
    core: str, tarball: Path, tmp_path: Path, start_node: Start
) -> None:
    inventory, commands = quick_start(README.read_text())
    (tmp_path / "inventory.yml").write_text(inventory)
    (tmp_path / tarball.name).symlink_to(tarball)
    (node,) = yaml.safe_load(inventory)["gpu_nodes"]["hosts"]
    reach = start_node(f"quick-{core}".replace(".", "-"))
    reach["device_plugin_wheelhouse"] = os.environ["WHEELHOUSE"]
    (tmp_path / "host_vars").mkdir()
    (tmp_path / f"host_vars/{node}.json").write_text(json.dumps(reach))
    first = follow(tmp_path, made(core), commands)
    assert first.returncode == 0, first.stdout + first.stderr
    assert f"{node}: ready" in first.stdout
    bringing_up = [one for one in commands if re.search(r"gpu\.node\.gpu_nodes$", one)]
    again = follow(tmp_path, made(core), ["unset ANSIBLE_STDOUT_CALLBACK", *bringing_up])
    assert again.returncode == 0, again.stdout + again.stderr
    assert re.search(rf"{node} +: ok=\d+ +changed=0 ", again.stdout), again.stdout
