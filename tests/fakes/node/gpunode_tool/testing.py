# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""For tests: a node, and runs of the playbook on it through ansible-runner."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner

from tests.support.waiting import eventually

from . import inside, nodes
from .paths import NODE

GPUNODE = str(NODE / "gpunode")
CALLBACKS = NODE / "callbacks"
KUBELET = "/run/standin-kubelet.sock"


@dataclass
class Node:
    """A simulated node and how to run the playbook on it."""

    name: str
    folder: Path
    variables: dict[str, Any] = field(default_factory=dict)

    def run(self, *words: str, check: bool = True) -> str:
        """Run a command on the node and return what it prints."""
        return inside.call(self.name, words, check=check)

    def play(
        self,
        playbook: str = "gpu.node.gpu_nodes",
        *,
        cmdline: str = "",
        cut_off_at: str | None = None,
        **variables: Any,
    ) -> Play:
        """Run a playbook; kill ansible where a task would begin, an empty name is for each in turn."""
        # The runner keeps an earlier run's options and variables there and would take them again.
        for kept in ("cmdline", "envvars", "extravars"):
            (self.folder / "env" / kept).unlink(missing_ok=True)
        runner: Any = ansible_runner.run(
            private_data_dir=str(self.folder),
            inventory=self._inventory(),
            playbook=playbook,
            extravars={**self.variables, **variables},
            cmdline=cmdline or None,
            envvars={
                "ANSIBLE_COLLECTIONS_PATH": os.environ["ANSIBLE_COLLECTIONS_PATH"],
                "ANSIBLE_HOME": str(self.folder / "ansible"),
                "ANSIBLE_INJECT_FACT_VARS": "false",
                "ANSIBLE_PIPELINING": "true",
                "ANSIBLE_HOST_KEY_CHECKING": "false",
                "ANSIBLE_TIMEOUT": "120",  # seconds to connect: a busy machine is no failure
                **self._cut_off(cut_off_at),
            },
            quiet=True,
        )
        return Play(runner, self.name)

    def play_while(self, act: Callable[[], Any], *playbook: str, **variables: Any) -> Play:
        """Run a playbook, and do something once one of its modules is seen waiting on the node."""
        with ThreadPoolExecutor() as pool:
            playing = pool.submit(self.play, *playbook, **variables)
            eventually(lambda: playing.done() or self._module_waits(), limit=nodes.LIMIT)
            assert not playing.done(), playing.result().message()
            act()
            return playing.result()

    def _module_waits(self) -> bool:
        """Return whether a Python that Ansible has started sleeps."""
        for one in inside.processes(self.name, "ssh.service"):
            with contextlib.suppress(OSError):
                program, asleep = (one / "comm").read_text(), (one / "wchan").read_text()
                if program.startswith("python") and "nanosleep" in asleep:
                    return True
        return False

    def _cut_off(self, at: str | None) -> dict[str, str]:
        if at is None:
            return {}
        log = str(self.folder / "cut-off")
        return {"ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS), "CUT_OFF_AT": at, "CUT_OFF_LOG": log}

    def cut_off(self) -> list[str]:
        """Return the tasks at whose beginning ansible was killed."""
        log = self.folder / "cut-off"
        return log.read_text().splitlines() if log.exists() else []

    def status(self) -> dict[str, Any]:
        """Return what the device plugin tells of itself."""
        found: dict[str, Any] = json.loads(
            self.run("/opt/gpu-node/bin/gpu-plugin", "status", "--json")
        )
        return found

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return what the kubelet knows of NVIDIA's resources, by their names without the vendor."""
        found = self._ask_kubelet(verb="resources")
        return {name.removeprefix("nvidia.com/"): one for name, one in found.items()}

    def _ask_kubelet(self, **request: Any) -> Any:
        """Ask as its command does, and start no process for it. CalledProcessError: no answer."""
        try:
            with socket.socket(socket.AF_UNIX) as stream:
                stream.connect(str(inside.path(self.name, KUBELET)))
                stream.sendall(json.dumps(request).encode() + b"\n")
                return json.loads(stream.makefile().readline())["result"]
        except (OSError, ValueError, KeyError) as error:
            raise subprocess.CalledProcessError(1, "kubelet", "", str(error)) from error

    def allocatable(self) -> dict[str, int]:
        """Return how many devices pods can get of each resource that has any."""
        found = {name: one["allocatable"] for name, one in self.resources().items()}
        return {name: count for name, count in found.items() if count}

    def reboot(self) -> None:
        """Reboot the node and wait until it answers again."""
        nodes.reboot(self.name)

    def _inventory(self) -> str:
        path = self.folder / "hosts.yml"
        if not path.exists():
            path.write_text(json.dumps(nodes.inventory(self._names())))
        return str(path)

    def _names(self) -> list[str]:
        return [self.name]


@dataclass
class Play:
    """A finished run of the playbook."""

    runner: Any
    node: str

    @property
    def ok(self) -> bool:
        """Return whether the run succeeded."""
        return bool(self.runner.rc == 0)

    @property
    def killed(self) -> bool:
        """Return whether ansible was killed: it has no status then."""
        return self.runner.rc is None

    def results(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the action, the task and the result of everything that ran on the node."""
        for event in self.runner.events:
            data = event.get("event_data", {})
            if event["event"] in ("runner_on_ok", "runner_on_failed") and "res" in data:
                yield data["task_action"], data["task"], data["res"]

    def plan(self) -> dict[str, dict[str, Any]]:
        """Return the parts of the one look at the node, by their names."""
        (parts,) = [one["parts"] for action, _task, one in self.results() if "node.plan" in action]
        return {one["name"]: one for one in parts}

    def changed(self) -> list[str]:
        """Return the tasks that changed something."""
        return [task for _action, task, result in self.results() if result.get("changed")]

    def module_calls(self) -> list[str]:
        """Return the tasks that ran on the node, not on the controller."""
        here = (
            "assert",
            "debug",
            "fail",
            "meta",
            "set_fact",
            "validate_argument_spec",
            "include_tasks",
            "include_role",
            "pin_options",
        )
        return [
            task
            for action, task, _result in self.results()
            if action.rsplit(".", 1)[-1] not in here
        ]

    def message(self) -> str:
        """Return the failure's message."""
        messages = [
            result.get("msg", "")
            for _action, _task, result in self.results()
            if result.get("failed")
        ]
        return " ".join(map(str, messages)) + self.runner.stdout.read()
