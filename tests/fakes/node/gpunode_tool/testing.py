# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""For tests: a node, and runs of the playbook on it through ansible-runner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner

from .paths import NODE

GPUNODE = str(NODE / "gpunode")


@dataclass
class Node:
    """A simulated node and how to run the playbook on it."""

    name: str
    folder: Path
    variables: dict[str, Any] = field(default_factory=dict)

    def run(self, *words: str, check: bool = True) -> str:
        """Run a command on the node and return what it prints."""
        done = subprocess.run(
            [GPUNODE, "exec", self.name, "--", *words], check=check, capture_output=True, text=True
        )
        return done.stdout

    def play(
        self,
        playbook: str = "gpu.node.gpu_nodes",
        *,
        cmdline: str = "",
        stop_when: Callable[[dict[str, Any]], bool] | None = None,
        **variables: Any,
    ) -> Play:
        """Run a playbook; kill ansible at the first event for which stop_when holds."""
        runner: Any = None
        killed = False

        def handle(event: dict[str, Any]) -> bool:
            nonlocal killed
            if stop_when is not None and not killed and stop_when(event):
                killed = True
                os.killpg(os.getpgid(event["pid"]), signal.SIGKILL)
            return True

        # The runner keeps an earlier run's options and variables there and would take them again.
        for kept in ("cmdline", "extravars"):
            (self.folder / "env" / kept).unlink(missing_ok=True)
        runner = ansible_runner.run(
            private_data_dir=str(self.folder),
            inventory=self._inventory(),
            playbook=playbook,
            extravars={**self.variables, **variables},
            cmdline=cmdline or None,
            envvars={
                "ANSIBLE_COLLECTIONS_PATH": os.environ["ANSIBLE_COLLECTIONS_PATH"],
                "ANSIBLE_PIPELINING": "true",
                "ANSIBLE_HOST_KEY_CHECKING": "false",
            },
            event_handler=handle,
            quiet=True,
        )
        return Play(runner, self.name, killed)

    def status(self) -> dict[str, Any]:
        """Return what the device plugin tells of itself."""
        found: dict[str, Any] = json.loads(
            self.run("/opt/gpu-node/bin/gpu-plugin", "status", "--json")
        )
        return found

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return what the kubelet knows of NVIDIA's resources, by their names without the vendor."""
        found = json.loads(self.run("standin-kubelet", "resources", "--json"))
        return {name.removeprefix("nvidia.com/"): one for name, one in found.items()}

    def allocatable(self) -> dict[str, int]:
        """Return how many devices pods can get of each resource that has any."""
        found = {name: one["allocatable"] for name, one in self.resources().items()}
        return {name: count for name, count in found.items() if count}

    def reboot(self) -> None:
        """Reboot the node and wait until it answers again."""
        subprocess.run([GPUNODE, "reboot", self.name], check=True, capture_output=True)

    def _inventory(self) -> str:
        done = subprocess.run(
            [GPUNODE, "inventory", self.name], check=True, capture_output=True, text=True
        )
        path = self.folder / "hosts.yml"
        path.write_text(done.stdout)
        return str(path)


@dataclass
class Play:
    """A finished run of the playbook."""

    runner: Any
    node: str
    killed: bool

    @property
    def ok(self) -> bool:
        """Tell whether the run succeeded."""
        return bool(self.runner.rc == 0)

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
