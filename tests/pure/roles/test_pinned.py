# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tasks on the controller read what was pinned, and nothing that a node's answer could take the place of."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.plugin_utils.controller.declared import NAMES
from jinja2 import Environment, nodes

from tests.support.paths import REPOSITORY

PINNED = {"__pinned", "__common_pinned"}
# What Ansible sets itself, above all facts.
MAGIC = {
    "ansible_check_mode",
    "ansible_failed_result",
    "ansible_failed_task",
    "ansible_play_batch",
    "ansible_play_hosts_all",
    "ansible_play_name",
    "ansible_playbook_python",
    "ansible_verbosity",
    "hostvars",
    "inventory_hostname",
    "inventory_hostname_short",
    "lookup",
    "omit",
    "query",
    "role_path",
    "undef",
}
# Actions whose arguments the controller itself works with.
CONTROLLER_ACTIONS = {
    "ansible.builtin.copy",
    "ansible.builtin.fetch",
    "ansible.builtin.include_tasks",
    "ansible.builtin.reboot",
    "ansible.builtin.template",
    "gpu.node.fetch_evidence",
}
READS_FILES = re.compile(
    r"(?:lookup|query)\('ansible\.builtin\.(?:file|first_found|fileglob|pipe)'"
)
# Arguments and keywords that take a node's answer as text, or as a condition.
TEXTS = {
    *("changed_when", "content", "fail_msg", "failed_when", "label", "msg", "name", "that"),
    *("until", "when"),
}
# Arguments that the action itself holds against what it knows of the node.
CHECKED = {
    "gpu.node.drain": {"state", "reason", "failure", "names"},
    "gpu.node.fetch_evidence": {"path", "sha256", "size", "gpu"},
    "gpu.node.validate_pods": {"fail"},
}
KEYWORDS = {
    "block",
    "rescue",
    "always",
    "vars",
    "register",
    "name",
    "tags",
    "notify",
    "environment",
}
Scope = dict[str, Any]


def files() -> list[Path]:
    folders = ("roles/*/tasks", "roles/*/tasks/*", "playbooks", "playbooks/*", "playbooks/*/*")
    return sorted(path for folder in folders for path in REPOSITORY.glob(f"{folder}/*.yml"))


def role_variables(path: Path) -> Scope:
    """Return the variables of the role that a file of tasks is of, which outrank facts."""
    role = REPOSITORY.joinpath(*path.relative_to(REPOSITORY).parts[:2])
    variables = role / "vars/main.yml"
    return yaml.safe_load(variables.read_text()) if variables.exists() else {}


def tasks(items: Any, scope: Scope) -> Iterator[tuple[dict[str, Any], Scope]]:
    """Yield each task with the variables that plays, blocks and the task itself give it."""
    for item in items if isinstance(items, list) else ():
        inner = {**scope, **item.get("vars", {})}
        for part in ("tasks", "block", "rescue", "always"):
            yield from tasks(item.get(part), inner)
        if "block" not in item and "hosts" not in item:
            yield item, inner


@functools.cache
def begun_with() -> set[str]:
    """Return what the first play of a roll-out sets, which facts don't outrank, before it has asked a node."""
    plays = yaml.safe_load((REPOSITORY / "playbooks/rollout/begin.yml").read_text())
    action = "ansible.builtin.set_fact"
    return {name for task, _scope in tasks(plays, {}) for name in task.get(action, ())}


def is_on_controller(task: dict[str, Any]) -> bool:
    """Return whether the whole task is the controller's."""
    if "ansible.builtin.set_fact" in task:
        return False
    templated = any("{{" in str(task[action]) for action in CONTROLLER_ACTIONS & task.keys())
    return templated or "delegate_to" in task or bool(task.get("run_once"))


def reads_files(value: Any, scope: Scope) -> bool:
    """Return whether the controller reads a file for a value, also by the variables that it is made of."""
    texts = [*strings(value)]
    inner = [text for name in closure(iter(texts), scope) for text in strings(scope.get(name))]
    return any(READS_FILES.search(text) for text in (*texts, *inner))


@functools.cache
def names(text: str, condition: bool = False) -> frozenset[str]:
    """Return the variables of an expression or of a text with templates."""
    if condition and "{{" not in text:
        text = f"{{{{ {text} }}}}"
    if "{{" not in text:
        return frozenset()
    parsed = Environment().parse(text).find_all(nodes.Name)
    return frozenset(name.name for name in parsed if name.ctx == "load")


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


def closure(texts: Iterator[str], scope: Scope) -> set[str]:
    """Return the variables of texts, and those of the variables that plays and tasks give."""
    found: set[str] = set()
    pending = [name for text in texts for name in names(text)]
    while pending:
        name = pending.pop()
        if name in scope and name not in found:
            pending += [inner for text in strings(scope[name]) for inner in names(text)]
        found.add(name)
    return found


def places(task: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments and keywords that are no text."""
    for key, value in task.items():
        if key in TEXTS or key in KEYWORDS:
            continue
        if "." in key and isinstance(value, dict):
            texts = TEXTS | CHECKED.get(key, set())
            yield from ((name, inner) for name, inner in value.items() if name not in texts)
        else:
            yield key, value


def refused(task: dict[str, Any], scope: Scope) -> list[str]:
    """Return the variables of a task that a node's answer could take the place of."""
    loop = {task.get("loop_control", {}).get("loop_var", "item")}
    known = PINNED | MAGIC | loop | begun_with() | scope.keys()
    return sorted(
        f"{task['name']}: {place}: {name}"
        for place, value in places(task)
        if is_on_controller(task) or reads_files(value, scope)
        for name in closure(strings(value), scope) - known
    )


def options_in_texts(task: dict[str, Any], scope: Scope) -> list[str]:
    """Return the options that are read past what was pinned in a condition or a text."""
    conditions = strings([task.get(key) for key in ("when", "until", "failed_when")])
    read_names = {name for text in conditions for name in names(text, condition=True)}
    read_names |= closure(strings({key: task[key] for key in task if key not in KEYWORDS}), scope)
    return sorted(f"{task['name']}: {name}" for name in read_names & {*NAMES} - MAGIC)


@pytest.mark.attack("controller-of-a-taken-node")
def test_tasks_on_the_controller_read_pinned_options_alone() -> None:
    found, seen = [], 0
    for path in files():
        for task, scope in tasks(yaml.safe_load(path.read_text()), role_variables(path)):
            problems = refused(task, scope)
            if is_on_controller(task):
                seen += 1
                problems += options_in_texts(task, scope)
            found += [f"{path.relative_to(REPOSITORY)}: {problem}" for problem in problems]
    assert found == []
    assert seen > 30


@pytest.mark.parametrize(
    "argument",
    ["{{ gpu_nodes_kubeconfig }}", "{{ __own }}", "{{ hostvars[x].y }}", "{{ __seen.path }}"],
)
def test_what_a_node_may_answer_is_refused_in_an_argument(argument: str) -> None:
    task = {
        "name": "A",
        "gpu.node.drain": {"kubeconfig": argument},
        "delegate_to": "localhost",
        "vars": {"__own": "{{ gpu_nodes_context }}"},
    }
    ((found, scope),) = tasks([task], {})
    assert is_on_controller(found)
    assert refused(found, scope)


def test_every_pinned_option_is_read_somewhere() -> None:
    """An option that nothing reads any more is not pinned any longer."""
    texts = [path.read_text() for path in files()]
    texts += [path.read_text() for path in REPOSITORY.glob("roles/*/vars/main.yml")]
    texts += [path.read_text() for path in REPOSITORY.glob("plugins/*/*.py")]
    texts += [path.read_text() for path in REPOSITORY.glob("plugins/*/controller/*.py")]
    every = "\n".join(text for text in texts if "PARAMETERS = (" not in text)
    assert [name for name in sorted(NAMES) if name not in every] == []
