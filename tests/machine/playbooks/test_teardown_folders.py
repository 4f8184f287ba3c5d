# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a teardown takes for the collection's in its folders, and what it leaves to others."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import REPOSITORY

FOLDERS = ("/etc/gpu-node", "/var/lib/gpu-node", "/opt/gpu-node")
NAMED = re.compile(r"[\"'{ ](/(?:etc|var/lib|opt)/gpu-node/[A-Za-z0-9_.-]+)")


def tasks(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(
        (REPOSITORY / f"playbooks/tasks/teardown/{name}.yml").read_text()
    )
    return found


def variable(file: str, name: str) -> str:
    """Return a variable of the task that has it."""
    (found,) = (task["vars"][name] for task in tasks(file) if name in task.get("vars", {}))
    return str(found)


def play_variables() -> dict[str, Any]:
    """Return the variables of the play that removes what the collection has made."""
    plays = yaml.safe_load((REPOSITORY / "playbooks/teardown.yml").read_text())
    (variables,) = (play["vars"] for play in plays if "__teardown_paths" in play.get("vars", {}))
    return dict(variables)


PATHS: list[str] = play_variables()["__teardown_paths"]
STAYS: list[str] = play_variables()["__teardown_stays"]


class Node:
    """The folders of a node below a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in (*FOLDERS, "/run/gpu-node/locks"):
            self.at(folder).mkdir(parents=True)

    def at(self, path: str) -> Path:
        return self.root / path[1:]

    def put(self, *paths: str) -> None:
        for path in paths:
            self.at(path).write_text("")

    def script(self, file: str, name: str, *paths: str) -> list[str]:
        """Run a script of the teardown on the node's folders, and return the paths that it prints."""
        script = re.sub(r"(?<=[ ])/(etc|var|opt|run)/", rf"{self.root}/\1/", variable(file, name))
        words = ["sh", "-c", script, "sh", *(str(self.at(path)) for path in paths)]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return [line.removeprefix(str(self.root)) for line in output.splitlines()]

    def there(self) -> list[str]:
        return self.script("plan", "__teardown_list", *PATHS)

    def remove(self) -> list[str]:
        return self.script("folders", "__teardown_script", *PATHS, *STAYS)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_each_path_that_the_code_names_is_known_to_the_teardown() -> None:
    named = set()
    for folder in (
        "plugins/module_utils",
        "files/gpu_plugin/src",
        "playbooks/tasks/in_service.yml",
    ):
        place = REPOSITORY / folder
        for path in place.rglob("*.py") if place.is_dir() else [place]:
            named |= set(NAMED.findall(path.read_text()))
    assert len(named) > 25
    assert named - {*PATHS, *STAYS} == set()


def test_what_others_have_there_is_no_reason_to_begin(node: Node) -> None:
    node.put("/etc/gpu-node/site.conf", "/etc/gpu-node/.config.yaml.swp", "/var/lib/gpu-node/notes")
    node.put(*STAYS)
    assert node.there() == []
    node.put("/etc/gpu-node/config.yaml")
    node.at("/opt/gpu-node/current").symlink_to("releases/gone")
    assert node.there() == ["/etc/gpu-node/config.yaml", "/opt/gpu-node/current"]


def test_a_second_teardown_finds_nothing_beside_files_of_others(node: Node) -> None:
    node.put("/etc/gpu-node/site.conf", "/opt/gpu-node/readme")
    assert node.remove() == ["/var/lib/gpu-node", "/run/gpu-node"]
    assert node.remove() == []
    assert node.at("/etc/gpu-node/site.conf").exists()
    assert node.at("/opt/gpu-node/readme").exists()


def test_file_systems_that_mps_mounted_go_with_the_folder(node: Node) -> None:
    """They are of a root of MPS that is another now, and a container that has one keeps it."""
    if os.geteuid() != 0:
        pytest.skip("mounts can be made by root only")
    place = node.at("/run/gpu-node/mps/GPU-1/shm")
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "gpu-mps-GPU-1", place], check=True)
    held = (place / "file").open("w")
    try:
        assert "/run/gpu-node" in node.remove()
    finally:
        subprocess.run(["umount", "-l", place], check=False, stderr=subprocess.DEVNULL)
    assert not node.at("/run/gpu-node").exists()
    assert held.write("of a container that has it") > 0
    held.close()


def test_leftovers_of_killed_writes_keep_no_folder(node: Node) -> None:
    node.put("/etc/gpu-node/.config.yaml.a1b2c3d4", "/var/lib/gpu-node/.records.zzzzzzzz")
    assert node.remove() == [*FOLDERS, "/run/gpu-node"]


def test_hidden_files_of_others_stay(node: Node) -> None:
    node.put("/etc/gpu-node/.config.yaml.swp", "/etc/gpu-node/.site.conf.a1b2c3d4")
    assert "/etc/gpu-node" not in node.remove()
    assert len(list(node.at("/etc/gpu-node").iterdir())) == 2


@pytest.mark.parametrize("path", [STAYS[0], "/etc/gpu-node/config.yaml"])
def test_locks_stay_with_what_they_guard(node: Node, path: str) -> None:
    node.put(path)
    assert "/run/gpu-node" not in node.remove()
    assert node.at("/run/gpu-node/locks").exists()
