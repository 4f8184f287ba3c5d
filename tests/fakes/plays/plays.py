# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Playbooks that ansible-playbook runs with the display, on this machine, with no module of the collection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.callback import progress

COLLECTIONS = Path(progress.__file__).parents[5]
SPEAKS = """\
from ansible.module_utils.basic import AnsibleModule
import time

def main():
    spec = {"warn": {"type": "list", "elements": "str", "default": []}, "old": {"type": "str"}}
    spec.update(answer={"type": "dict", "default": {}}, fail={"type": "str"}, sleep={"type": "float", "default": 0})
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    time.sleep(module.params["sleep"])
    for warning in module.params["warn"]:
        module.warn(warning)
    if module.params["old"]:
        module.deprecate(module.params["old"], version="9.0.0", collection_name="gpu.node")
    if module.params["fail"]:
        module.fail_json(msg=module.params["fail"], **module.params["answer"])
    module.exit_json(**module.params["answer"])

main()
"""
DIES = """\
#!/bin/sh
echo half an answer
echo no more memory >&2
exit 137
"""
Answers = Callable[..., str]


class Play:
    """A folder with a playbook, and what ansible-playbook shows of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "library").mkdir()
        (folder / "library/speaks.py").write_text(SPEAKS)
        (folder / "library/dies.sh").write_text(DIES)

    def environment(self, **settings: str) -> dict[str, str]:
        kept = {
            key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "PYTHONPATH")
        }
        return {
            **kept,
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_STDOUT_CALLBACK": "gpu.node.progress",
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "LC_ALL": "C.UTF-8",
            **settings,
        }

    def command(self, plays: Any, *words: str, hosts: Any = ("n1",)) -> list[str]:
        """Write the plays, as JSON is YAML, and return what runs them."""
        if isinstance(plays[0], dict) and "hosts" not in plays[0]:
            plays = [{"name": "A play", "hosts": "all", "gather_facts": False, "tasks": plays}]
        (self.folder / "play.yml").write_text(json.dumps(plays))
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        names = hosts if isinstance(hosts, dict) else {name: {} for name in hosts}
        inventory = {"all": {"hosts": {name: {**local, **more} for name, more in names.items()}}}
        (self.folder / "hosts.yml").write_text(json.dumps(inventory))
        default = str(Path(sys.executable).with_name("ansible-playbook"))
        program = os.environ.get("GPUNODE_ANSIBLE_PLAYBOOK", default)
        return [program, "--inventory", "hosts.yml", "play.yml", *words]

    def run(self, plays: Any, *words: str, hosts: Any = ("n1",), **settings: str) -> str:
        """Return what a log gets."""
        done = subprocess.run(
            self.command(plays, *words, hosts=hosts),
            cwd=self.folder,
            env=self.environment(**settings),
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode in (0, 2, 4), done.stderr
        assert "allback" not in done.stderr, "ansible goes on where a display fails, and says so"
        return done.stdout


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


@pytest.fixture(scope="module")
def shared_play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    return Play(tmp_path_factory.mktemp("play"))


def block(text: str, start: str) -> list[str]:
    """Return the line of a task that has ``start`` in it and those below it, without their indent."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if start in line)
    below = lines[first + 1 :]
    end = next((n for n, line in enumerate(below) if not line.startswith(" " * 15)), len(below))
    return [lines[first], *(line[15:] for line in below[:end])]
