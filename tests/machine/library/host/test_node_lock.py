# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One run at a time changes a node: genuine modules in processes of their own, and what a killed one leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import helper_process
from tests.support.helper_process import HelperProcess
from tests.support.waiting import LIMIT, eventually

PACKAGE = "ansible_collections.gpu.node.plugins.module_utils"
# Reads a number in its observation, and writes the next one once its command has ended.
MODULE = f"""
import json, os, sys
from ansible.module_utils.basic import AnsibleModule
from {PACKAGE}._base.steps import Plan, Step
from {PACKAGE}._machine import locks
from {PACKAGE}._machine.host import Host
from {PACKAGE}._machine.run import run_capability

class Counter:
    name = "counter"

    def __init__(self, path, command):
        self.path, self.command, self.added = path, command, False

    def observe(self):
        open(self.path + ".observed", "a").close()
        with open(self.path) as stream:
            return int(stream.read())

    def plan(self, number):
        return Plan(() if self.added else (Step("add", "add one", {{"to": number}}),))

    def apply(self, step):
        Host().run(["sh", "-c", self.command])
        with open(self.path, "w") as stream:
            stream.write(str(step.params["to"] + 1))
        self.added = True

    def result(self, number, plan):
        return {{"number": number}}

options = {{"path": {{"type": "str"}}, "command": {{"type": "str"}}, "lock_timeout": {{"type": "int"}}}}
module = AnsibleModule(argument_spec=options, supports_check_mode=True)
locks.NODE = os.path.dirname(module.params["path"]) + "/locks/node.lock"
make = lambda: Counter(module.params["path"], module.params["command"])
run_capability(module, make, changes_node=True)
"""
WAIT = "touch {0}/started; read -r word < {0}/go"  # until somebody writes to the FIFO
LONG = [pytest.param(at, marks=[] if at == 0 else [pytest.mark.long]) for at in range(20)]
twenty_times = pytest.mark.parametrize("repetition", LONG)


class Node:
    """A folder with a number that modules increase, and the lock of its node."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, folder / "number"
        self.started, self.go = folder / "started", folder / "go"
        self._processes: list[HelperProcess] = []
        self.number.write_text("0")
        os.mkfifo(self.go)

    def module(
        self, command: str = "true", *, timeout: int = int(LIMIT), check: bool = False
    ) -> HelperProcess:
        """Start a module that runs a command between its look and its change."""
        path = self.folder / f"{len(self._processes)}.json"
        params = {"path": str(self.number), "command": command, "lock_timeout": timeout}
        params |= {"_ansible_check_mode": check, "_ansible_remote_tmp": str(self.folder)}
        path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": params}))
        process = helper_process.start(
            [sys.executable, "-c", MODULE, path],
            ready=helper_process.executed,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._processes.append(process)
        return process

    def waiting_module(self) -> HelperProcess:
        """Start a module that waits in the middle of its change."""
        process = self.module(WAIT.format(self.folder))
        eventually(self.started.exists)
        self.started.unlink()
        return process

    def proceed(self) -> None:
        """Have the command of the waiting module end."""
        self.go.write_text("go\n")

    def close(self) -> None:
        """End all processes, also those that a killed module has left behind."""
        with contextlib.suppress(OSError):  # nobody reads
            os.close(os.open(self.go, os.O_WRONLY | os.O_NONBLOCK))
        for process in self._processes:
            process.close()


def answer(process: HelperProcess) -> dict[str, Any]:
    """Return what a module answers."""
    output, errors = process.communicate()
    assert output, errors
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    found = Node(tmp_path)
    yield found
    found.close()


@twenty_times
def test_a_second_run_waits_and_plans_by_what_the_first_has_changed(
    node: Node, repetition: int
) -> None:
    first = node.waiting_module()
    second = node.module()
    eventually(lambda: helper_process.opened(second.pid, node.folder / "locks/node.lock"))
    node.proceed()
    assert answer(first)["number"] == 1
    assert answer(second)["number"] == 2


def test_a_run_that_does_not_wait_names_the_one_that_holds_the_node(node: Node) -> None:
    first = node.waiting_module()
    refused = answer(node.module(timeout=0))
    assert refused["failed"]
    assert ": another run changes this node: " in refused["msg"]
    assert f"node.lock is held by process {first.pid} (" in refused["msg"]
    assert " UTC" in refused["msg"].partition(" since ")[2]
    assert refused["hint"] == "wait until that process has ended, then run again"
    assert refused["changed"] is False
    node.proceed()
    assert answer(first)["number"] == 1


def test_check_mode_waits_for_nobody(node: Node) -> None:
    first = node.waiting_module()
    assert answer(node.module(timeout=0, check=True))["changed"] is True
    node.proceed()
    assert answer(first)["number"] == 1


@twenty_times
def test_the_command_of_a_killed_module_holds_the_node_until_it_ends(
    node: Node, repetition: int
) -> None:
    killed = node.waiting_module()
    killed.kill()
    refused = answer(node.module(timeout=0))
    assert "is held by process " in refused["msg"]
    assert f"sh -c touch {node.started}" in refused["msg"]
    assert f", which process {killed.pid} left behind, since " in refused["msg"]
    following = node.module()
    node.proceed()
    assert answer(following)["number"] == 1


def test_a_daemon_that_a_command_has_started_does_not_hold_the_node(node: Node) -> None:
    detached = f"{{ read -r word < {node.go}; touch {node.started}; }} <&- >&- 2>&- &"
    assert answer(node.module(detached))["number"] == 1
    assert answer(node.module(timeout=0))["number"] == 2
    node.proceed()
    eventually(node.started.exists)


def test_a_user_who_is_not_root_is_told_what_to_do(node: Node, tmp_path: Path) -> None:
    script = MODULE.replace(
        "run_capability(module", "os.geteuid = lambda: 1000\nrun_capability(module", 1
    )
    assert script != MODULE
    path = tmp_path / "user.json"
    params = {"path": str(node.number), "command": "true", "_ansible_remote_tmp": str(tmp_path)}
    path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": params}))
    with helper_process.start(
        [sys.executable, "-c", script, path],
        ready=helper_process.executed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        refused = answer(process)
    assert "this needs root. Next step: set become: true" in refused["msg"]
    assert node.number.read_text() == "0"
