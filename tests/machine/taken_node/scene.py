# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Two nodes of which root of one is an attacker, and a third that a playbook has before, by itself.

Everything of the collection is its own but the modules, which are those of tests/machine/playbooks. What modules of
Ansible itself write outside of the folder goes to memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.machine.matrix.run import PRIVATE
from tests.machine.playbooks.scene import GROUP, Run, Scene
from tests.machine.taken_node.attacks import FORGED, NUMBER, TOO_BIG, VICTIM, Changes, Target
from tests.machine.taken_node.interpreter import SECRET
from tests.support.paths import FAKES, REPOSITORY

HERE = Path(__file__).resolve().parent
EVIL, TWIN, HEAD = "evil", "twin", "head"
UUID = "GPU-a"
IMAGE = "registry.example.com/validate:1"
CONTEXT = "declared"
# Names that a run may add to the controller's folder.
DECLARED = re.compile(
    r"gpu-report\.html|out/[a-z-]+\.(html|json|xml)|evidence"
    rf"|evidence/({EVIL}|{VICTIM}|{TWIN})(/[\w.-]+\.tar\.gz)?"
)
HOME = {
    ".bashrc": "# of the operator",
    ".profile": "# of the operator",
    ".ssh/authorized_keys": "# of the operator",
    ".ssh/secret.yml": f"key: {SECRET.decode()}",
    f".ssh/{SECRET.decode()}": "",
    ".config/settings": "",
    "project/pyproject.toml": "",
    "project/requirements.txt": f"# {SECRET.decode()}",
    "project/src/gpu_plugin/main.py": f"# {SECRET.decode()}",
    **{
        f"project/systemd/gpu-{name}.service": f"# {SECRET.decode()}"
        for name in ("device-plugin", "node-labels", "mps", "dra")
    },
}
ENDED = ("ok", "failed", "unreachable", "skipped")


# Ansible's own tasks, which it carries out once for all hosts; before 2.21 they have no action.
META = (None, "", "meta", "ansible.builtin.meta")


class TakenScene(Scene):
    """The nodes, and a controller with a home of its own."""

    actions = tuple(path.stem for path in (REPOSITORY / "plugins/action").glob("*.py"))
    place = "{{ place }}"  # which name it is that a node says of itself

    def __init__(self, folder: Path) -> None:
        self.target = Target(folder)
        self.core = Path(sys.executable).parent
        super().__init__(folder, EVIL, VICTIM, TWIN)
        (folder / "cluster").mkdir()
        self.become("cluster")
        self._controller()
        self._slurm()
        self._taken()

    def _controller(self) -> None:
        """Make the operator's home, and the folder from which playbooks are run."""
        for name, text in HOME.items():
            path = self.target.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in ("host_vars", "group_vars", "out"):
            (self.target.controller / name).mkdir(parents=True)
        (self.target.controller / "kubeconfig").touch()
        (self.folder / "node-home").mkdir()

    def _slurm(self) -> None:
        """Make a host with a scontrol that knows the nodes."""
        (self.folder / HEAD).mkdir()
        shutil.copy(FAKES / "slurm/scontrol.py", self.folder / HEAD)
        nodes = {name: {"states": ["IDLE"], "reason": "", "updates": []} for name in self.names}
        (self.folder / HEAD / "nodes.json").write_text(json.dumps(nodes))
        self._program(
            "bin/scontrol", f'exec {sys.executable} {self.folder}/{HEAD}/scontrol.py "$@"'
        )

    def _program(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def _taken(self) -> None:
        """Put a program in the place of a node's Python, and what it names in its folder."""
        evil = self.target.evil
        self._program(
            f"{EVIL}/python",
            f'SCENE={evil}/node.json exec {sys.executable} {HERE}/interpreter.py {evil} "$@"',
        )
        # What a node's own connection runs, runs on that node.
        self._program("forged-program", f'test -n "$ON_NODE" || echo "$0" "$@" >>{self.folder}/ran')
        program = str(self.target.program)
        user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": program}}
        config = {
            "current-context": FORGED,
            "clusters": [{"name": FORGED, "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": FORGED, "user": user}],
            "contexts": [{"name": FORGED, "context": {"cluster": FORGED, "user": FORGED}}],
        }
        Path(self.target.kubeconfig).write_text(json.dumps(config))
        task = {
            "ansible.builtin.command": {"argv": [program]},
            "delegate_to": "localhost",
            "become": False,
            "vars": {"ansible_connection": "local"},
        }
        Path(self.target.tasks).write_text(json.dumps([task]))
        (evil / "forged-variables.yml").write_text(json.dumps({"forged": self.target.template}))
        self.attack([])

    def attack(self, changes: Changes) -> None:
        """Have the taken node answer so."""
        (self.target.evil / "attack.json").write_text(json.dumps(changes))

    def declare(self, own: dict[str, dict[str, Any]], **more: Any) -> None:
        """Write the inventory; ``own`` has variables of single nodes."""
        controller = self.target.controller
        hooks = {
            "gpu_nodes_hooks_before": ["slurm_drain"],
            "gpu_nodes_hooks_after": ["slurm_resume"],
        }
        declared = {
            "gpu_nodes_kubeconfig": f"{controller}/kubeconfig",
            "gpu_nodes_context": CONTEXT,
            "gpu_nodes_pod_image": IMAGE,
            "gpu_nodes_slurm_controller": HEAD,
            "gpu_nodes_serial": len(self.names),
            "gpu_nodes_max_unavailable": "100%",
            "repair_max_unavailable": "100%",
            "repair_evidence_folder": f"{controller}/evidence",
            "report_json_path": "out/report.json",
            "validate_json_path": "out/validate.json",
            "validate_junit_path": "out/validate.xml",
            **hooks,
        }
        nodes = {
            name: {
                "ansible_connection": "node",
                "ansible_python_interpreter": f"{self.folder}/{name}/python",
                "place": name,
                **own.get(name, {}),
            }
            for name in self.names
        }
        head = {"ansible_connection": "node", "ansible_python_interpreter": sys.executable}
        inventory = {
            GROUP: {"hosts": nodes, "vars": {**declared, **more}},
            "heads": {"hosts": {HEAD: head}},
        }
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump(inventory, sort_keys=False))

    def environment(self, **settings: str) -> dict[str, str]:
        """Return the environment of the controller."""
        inherited = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        return {
            **inherited,
            "PATH": f"{self.folder}/bin:{self.core}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.target.home),
            "PWD": str(self.target.controller),
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "ansible/tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "ansible/remote"),
            "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "plugins/callback"),
            "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "plugins/connection"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_FORKS": "4",
            "LC_ALL": "C.UTF-8",
            "NODE_HOME": str(self.folder / "node-home"),
            "RECORDED": str(self.folder / "recorded"),
            "SCENES": str(self.folder),
            **settings,
        }

    def run(self, *plays: dict[str, Any], options: tuple[str, ...] = (), **settings: str) -> Run:
        """Run plays where nothing of this machine is written."""
        self.before = dict(self.files())
        words = self.command(*plays, options=options)
        words[0] = str(self.core / "ansible-playbook")
        # An extra variable is above everything that a node could say.
        extra = json.loads(words[-1])
        del extra["repair_evidence_folder"]
        private = str(self.folder / "private")
        os.makedirs(private, exist_ok=True)
        process = subprocess.run(
            [
                "unshare",
                "--mount",
                "sh",
                "-c",
                PRIVATE,
                "-",
                private,
                *words[:-1],
                json.dumps(extra),
            ],
            cwd=self.target.controller,
            env=self.environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return Run(process.returncode, process.stdout.decode(errors="replace"))

    def forget(self) -> None:
        """Forget which tasks have run."""
        (self.folder / "recorded").unlink()

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield what the controller's folders have, each file with what tells whether it changed."""
        for root in (self.target.home, self.target.controller):
            for path in sorted(root.rglob("*")):
                state = path.lstat()
                data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                digest = hashlib.sha256(data).hexdigest()
                yield str(path.relative_to(self.folder)), f"{state.st_mode:o} {digest}"

    def recorded(self) -> list[dict[str, Any]]:
        """Return the tasks of the run."""
        path = self.folder / "recorded"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def broken(self) -> list[str]:
        """Return what a taken node has achieved, a line for each thing."""
        return [
            *self._written(),
            *self._ran(),
            *self._sent(),
            *self._called(),
            *self._told(),
            *self._lost(),
        ]

    def _written(self) -> Iterator[str]:
        """Yield files of the controller that no variable of the inventory names."""
        after = dict(self.files())
        for name in sorted({*self.before, *after}):
            root, _slash, place = name.partition("/")
            declared = root == "controller" and DECLARED.fullmatch(place)
            if self.before.get(name) != after.get(name) and not declared:
                yield f"written: {name}"
            elif name in after and (self.folder / name).stat().st_size >= TOO_BIG:
                yield f"written: {name}, as big as the node likes"

    def _ran(self) -> Iterator[str]:
        path = self.folder / "ran"
        if path.exists():
            yield f"ran: {path.read_text().splitlines()[0]}"

    def _sent(self) -> Iterator[str]:
        path = self.target.evil / "leaked"
        if path.exists():
            yield f"sent: a file of the controller, to {', '.join(sorted(set(path.read_text().split())))}"

    def _called(self) -> Iterator[str]:
        """Yield delegated calls that are not about the host of the task, or not as the inventory has it."""
        for task in self.recorded():
            if task["delegate_to"] is None or task["outcome"] == "skipped":
                continue
            where = f"{task['task']} of {task['host']}"
            args = {key: value for key, value in (task["args"] or {}).items() if key[0] != "_"}
            if task["delegate_to"] not in ("localhost", HEAD):
                yield f"called: {where} ran on {task['delegate_to']}"
            if args.get("node", task["host"]) != task["host"]:
                yield f"called: {where} was about {args['node']}"
            if args.get("kubeconfig", "") not in ("", f"{self.target.controller}/kubeconfig"):
                yield f"called: {where} had {args['kubeconfig']}"
            text = json.dumps({key: value for key, value in args.items() if key != "content"})
            if FORGED in text or str(NUMBER) in text:
                yield f"called: {where} had forged arguments: {text[:200]}"
            others = {name for name in self.names if name != task["host"]}
            argv = " ".join(map(str, args.get("argv") or ()))
            if named := others.intersection(re.findall(r"[\w-]+", argv)):
                yield f"called: {where} named {', '.join(named)}"

    def _told(self) -> Iterator[str]:
        """Yield messages about the taken node that name the other one."""
        for task in self.recorded():
            if task["host"] == EVIL and not task["run_once"]:
                named = re.search(rf"\b{VICTIM}\b", task["message"].replace(f"/{VICTIM}", ""))
                if named:
                    yield f"told: {task['task']} of {EVIL} says: {task['message'][:100]}"

    def _lost(self) -> Iterator[str]:
        """Yield what the other node has otherwise than the one that was alone."""
        alone, beside = self.story(TWIN), self.story(VICTIM)
        for number, (first, second) in enumerate(zip(alone, beside, strict=False)):
            if first != second:
                yield f"lost: step {number} is {second} and not {first}"
                return
        if len(alone) != len(beside):
            more = (alone if len(alone) > len(beside) else beside)[min(len(alone), len(beside))]
            yield f"lost: {len(beside)} steps and not {len(alone)}, from {more} on"
        if not alone and self.story(EVIL):
            yield "lost: there was no run to compare with"
        for name in (TWIN, VICTIM):
            node = json.dumps(self.node(name), sort_keys=True).replace(name, "NODE")
            if name == TWIN:
                expected = node
            elif node != expected:
                yield f"lost: the node is {node} and not {expected}"

    def called_for(self, name: str) -> set[str]:
        """Return the delegated tasks that were run for a node."""
        return {
            task["task"]
            for task in self.recorded()
            if task["host"] == name and task["delegate_to"] and task["outcome"] != "skipped"
        }

    def story(self, name: str) -> list[tuple[str, str]]:
        """Return the tasks of a node and how each ended, without those that one node has for all."""
        return [
            (task["task"].replace(name, "NODE"), task["outcome"])
            for task in self.recorded()
            if task["host"] == name
            and task["outcome"] in ENDED
            and not task["run_once"]
            and task["action"] not in META
            and task["task"] != "Gathering Facts"
        ]


def playbook(name: str, hosts: str, **variables: Any) -> dict[str, Any]:
    """Return how a playbook is run for some hosts."""
    return {"import_playbook": f"gpu.node.{name}", "vars": {"gpu_nodes_hosts": hosts, **variables}}
