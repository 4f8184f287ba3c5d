# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A group of nodes that are folders: the playbooks are the collection's own, what modules find is scripted."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import FAKES, REPOSITORY

SCRIPTED = Path(__file__).with_name("scripted.py")
GROUP = "gpu_nodes"
EMPTY: dict[str, Any] = {"bool": False, "list": [], "dict": {}, "int": 0, "float": 0.0}


class Scene:
    """Nodes by name, each with what its file says, and an inventory of them."""

    # The genuine action plugins. Those of other modules would look for what scripted modules don't have.
    actions: tuple[str, ...] = ("gpu_info", "pin_options", "fetch_evidence")
    place = "{{ inventory_hostname }}"  # the folder of a node

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder, self.names = folder, names
        self.inventory, self.playbooks = folder / "inventory", folder / "site"
        for one in (self.inventory, self.playbooks):
            one.mkdir()
        self._collection()
        for name in names:
            self._node(name)
        self.write()

    def _collection(self) -> None:
        root = self.folder / "collections/ansible_collections/gpu/node"
        (root / "plugins/modules").mkdir(parents=True)
        for part in ("playbooks", "roles", "files", "meta", "galaxy.yml"):
            (root / part).symlink_to(REPOSITORY / part)
        for part in ("filter", "lookup", "module_utils", "plugin_utils", "doc_fragments"):
            (root / "plugins" / part).symlink_to(REPOSITORY / "plugins" / part)
        (root / "plugins/action").mkdir()
        for name in self.actions:
            action = f"plugins/action/{name}.py"
            (root / action).symlink_to(REPOSITORY / action)
        for name, returned in documented().items():
            text = SCRIPTED.read_text().replace("RETURNED = {}", f"RETURNED = {returned!r}")
            program = "\n".join(["#!/usr/bin/python", *documentation(name), text])
            (root / "plugins/modules" / f"{name}.py").write_text(program)

    def _node(self, name: str) -> None:
        (self.folder / name).mkdir()
        python = self.folder / name / "python"
        python.write_text(f'#!/bin/sh\nSCENE={self._path(name)} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        self.become(name, nvidia_driver="550")
        self.puts(name, "device_plugin", "cdi", "environment", "driver")

    def _path(self, name: str) -> Path:
        return self.folder / name / "node.json"

    def node(self, name: str) -> dict[str, Any]:
        """Return what a node is like."""
        found: dict[str, Any] = json.loads(self._path(name).read_text())
        return found

    def become(self, name: str, **changes: Any) -> None:
        """Make a node like that."""
        before = self.node(name) if self._path(name).exists() else {}
        self._path(name).write_text(json.dumps({**before, **changes}))

    def log(self, name: str) -> list[str]:
        """Return the modules that were called on a node, without those that only look."""
        looks = ("gpu_info", "preflight", "plan")
        return [one for one in self.node(name).get("log", []) if one not in looks]

    def puts(self, name: str, *parts: str) -> None:
        """Make a node have what the collection leaves of these parts."""
        for part in parts:
            (self.folder / name / part).touch()

    def marker(self, name: str) -> Path:
        return self.folder / name / "in-service"

    def leaving(self, name: str) -> dict[str, Any]:
        """Return the variables of a node that does not answer once a file "gone" is there."""
        gone = self.folder / name / "gone"
        way = f"{{{{ lookup('pipe', 'test -e {gone} && echo ssh || echo local') }}}}"
        return {"ansible_connection": way, "ansible_host": "127.0.0.1", "ansible_port": 1}

    def write(self, hosts: dict[str, dict[str, Any]] | None = None, **variables: Any) -> None:
        """Write the inventory, with variables of the group and of some hosts."""
        own = {
            "ansible_connection": "local",
            "ansible_python_interpreter": f"{self.folder}/{{{{ inventory_hostname }}}}/python",
        }
        nodes = {name: (hosts or {}).get(name, {}) for name in self.names}
        group = {"hosts": nodes, "vars": {**own, **variables}}
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump({GROUP: group}, sort_keys=False))

    def hook(self, word: str, folder: Path | None = None, command: str = "", **more: Any) -> str:
        """Write a hook that writes its word in the node's log, and return its name."""
        command = command or f"echo {word} >> {self.folder}/{{{{ inventory_hostname }}}}/hooks"
        said = {
            "name": "Write down that the hook ran",
            "ansible.builtin.command": {"argv": ["sh", "-c", command]},
            "changed_when": True,
            **more,
        }
        name = f"{word}.yml"
        ((folder or self.playbooks) / name).write_text(yaml.safe_dump([said]))
        return name

    def hooks(self, name: str) -> list[str]:
        """Return the hooks that ran on a node."""
        path = self.folder / name / "hooks"
        return path.read_text().split() if path.exists() else []

    def command(
        self,
        *playbooks: str | dict[str, Any],
        options: Sequence[str] = (),
        site: str = "site.yml",
        **variables: Any,
    ) -> list[str]:
        """Return the command that runs playbooks from one of the user's own, of that name."""
        path = self.playbooks / site
        named = [one if isinstance(one, dict) else imported(one) for one in playbooks]
        path.write_text(yaml.safe_dump(named))
        at = f"{self.folder}/{self.place}"
        parts = ("device_plugin", "cdi", "environment", "dcgm", "driver", "gate")
        own = {
            "__in_service_marker": f"{at}/in-service",
            "__in_service_lock": f"{at}/run/locks/in-service.lock",
            "__in_service_paths": {
                "older": [f"{at}/driver-upgrade", f"{at}/mig-change"],
                **{part: f"{at}/{part}" for part in parts},
            },
            "__in_service_probe": f"test -e {at}/driver",
            "repair_evidence_folder": f"{self.folder}/evidence",
        }
        words = ["ansible-playbook", "-i", str(self.inventory / "hosts.yml"), str(path), *options]
        return [*words, "-e", json.dumps({**own, **variables})]

    def play(
        self,
        *playbooks: str | dict[str, Any],
        options: Sequence[str] = (),
        cut_off_at: str = "",
        **variables: Any,
    ) -> Run:
        """Run playbooks from one of the user's own, which may give them variables.

        It is killed where a task of this name would begin.
        """
        words = self.command(*playbooks, options=options, **variables)
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_FORKS": "4",
            "SCENES": str(self.folder),
            "PYTHONUNBUFFERED": "1",
        }
        if cut_off_at:
            environment["ANSIBLE_CALLBACK_PLUGINS"] = str(FAKES / "node/callbacks")
            environment |= {"CUT_OFF_AT": cut_off_at, "CUT_OFF_LOG": str(self.folder / "cut-off")}
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return Run(done.returncode, done.stdout)


def imported(playbook: str, **variables: Any) -> dict[str, Any]:
    """Return how a playbook of the collection is imported with variables."""
    return {"import_playbook": f"gpu.node.{playbook}", "vars": variables}


def documentation(module: str) -> list[str]:
    """Return what a module of the collection says of itself, such as DOCUMENTATION and RETURN."""
    body = ast.parse((REPOSITORY / f"plugins/modules/{module}.py").read_text()).body
    return [
        ast.unparse(node)
        for node in body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).isupper()
    ]


@functools.cache
def documented() -> dict[str, dict[str, Any]]:
    """Return what each module's documentation says it returns, all of it empty."""
    found = {}
    for module in (REPOSITORY / "plugins/modules").glob("[a-z]*.py"):
        (text,) = (
            one.value.value
            for one in ast.parse(module.read_text()).body
            if isinstance(one, ast.Assign)
            and isinstance(one.targets[0], ast.Name)
            and one.targets[0].id == "RETURN"
            and isinstance(one.value, ast.Constant)
        )
        returned = yaml.safe_load(str(text)) or {}
        found[module.stem] = empty(returned)
    for name in ("plan", "preflight"):
        found[name].update(found["gpu_info"])
    return found


def empty(described: dict[str, Any]) -> dict[str, Any]:
    """Return a value for each key of a RETURN, empty or with nothing in what it has."""
    return {
        key: empty(one["contains"])
        if one.get("type") == "dict" and "contains" in one
        else EMPTY.get(one.get("type"), "")
        for key, one in described.items()
    }


class Run:
    """A finished run of a playbook."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text

    @property
    def tasks(self) -> list[str]:
        """Return the names of the tasks, in order."""
        return [
            one.rpartition(" : ")[2] for one in re.findall(r"^TASK \[(.*?)\] \*", self.text, re.M)
        ]

    @property
    def batches(self) -> int:
        """Return how many batches began."""
        return self.tasks.count("See what is there")
