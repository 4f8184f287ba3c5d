# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Playbooks that ansible-playbook runs with the display, on this machine, with no module of the collection."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.callback import progress

from tests.support import helper_process
from tests.support.waiting import LIMIT, eventually

COLLECTIONS = Path(progress.__file__).parents[5]
SPEAKS = """\
from ansible.module_utils.basic import AnsibleModule

def main():
    spec = {"warn": {"type": "list", "elements": "str", "default": []}, "old": {"type": "str"}}
    spec.update(answer={"type": "dict", "default": {}}, fail={"type": "str"}, gate={"type": "str"})
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    if module.params["gate"]:
        open(module.params["gate"]).close()
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
Scene = tuple[str, Callable[[], object]]  # what is done once a line has these words


class Gate:
    """Holds the modules that come to it: a named pipe, which they open for reading."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._held: list[int] = []

    def let_through(self) -> None:
        """Let the module go on that waits, once it does."""
        os.close(eventually(self._writer))

    def open(self) -> None:
        """Let everything through from now on."""
        self._held.append(os.open(self.path, os.O_RDWR))

    def remove(self) -> None:
        """Let go who waits, and fail who comes."""
        self.open()
        self.path.unlink()
        while self._held:
            os.close(self._held.pop())

    def _writer(self) -> int:
        with contextlib.suppress(OSError):  # nobody waits yet
            return os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        return 0


class Play:
    """A folder with a playbook, and what ansible-playbook shows of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._gates: list[Gate] = []
        (folder / "library").mkdir()
        (folder / "library/speaks.py").write_text(SPEAKS)
        (folder / "library/dies.sh").write_text(DIES)

    def gate(self) -> Gate:
        """Return a gate, by whose path modules wait."""
        self._gates.append(Gate(self.folder / f"gate-{len(self._gates)}"))
        return self._gates[-1]

    @contextlib.contextmanager
    def ended(self, command: list[str], **given: Any) -> Iterator[subprocess.Popen[str]]:
        """Run a command for the time of a with statement; no module waits at a gate after that."""
        with helper_process.start(
            command, cwd=self.folder, text=True, **given, ready=helper_process.executed
        ) as self.runs:
            try:
                yield self.runs
            finally:
                self.runs.kill()
                while self._gates:
                    self._gates.pop().remove()

    def environment(self, **settings: str) -> dict[str, str]:
        kept = {
            key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "PYTHONPATH")
        }
        return {
            **kept,
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_STDOUT_CALLBACK": "gpu.node.progress",
            "ANSIBLE_INJECT_FACT_VARS": "false",
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
        )
        assert done.returncode in (0, 2, 4), done.stderr
        assert "allback" not in done.stderr, "ansible goes on where a display fails, and says so"
        return done.stdout

    def follow(self, command: list[str], *scenes: Scene, **settings: str) -> str:
        """Return what a log gets, while something is done at each scene."""
        left, text = list(scenes), ""
        environment = self.environment(**settings)
        with self.ended(command, env=environment, stdout=subprocess.PIPE) as runs:
            assert runs.stdout is not None
            while data := read(runs.stdout.fileno()):
                text += data.decode()
                while left and left[0][0] in text:
                    left.pop(0)[1]()
        assert not left, f"never seen: {left[0][0]!r} in {text}"
        return text


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


@pytest.fixture(scope="module")
def shared_play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    return Play(tmp_path_factory.mktemp("play"))


def read(end: int) -> bytes:
    """Return what comes next from a pipe or a terminal."""
    assert select.select([end], [], [], LIMIT)[0], "nothing was said for long"
    return os.read(end, 65536)


def block(text: str, start: str) -> list[str]:
    """Return the line of a task that has ``start`` in it and those below it, without their indent."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if start in line)
    below = lines[first + 1 :]
    end = next((n for n, line in enumerate(below) if not line.startswith(" " * 15)), len(below))
    return [lines[first], *(line[15:] for line in below[:end])]
