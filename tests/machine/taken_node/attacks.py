# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a taken node answers: each attack is a list of changes as interpreter.py makes them.

A value that is forged has the word ``forged`` in it, or is the name of the other node.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.machine.taken_node import variables

VICTIM = "good"
FORGED = "forged"
NUMBER = 4242
HUGE, WIDE, DEEP, MANY = 100_000_000, 1_000_000, 100_000, 2_000
OWN = "plan|preflight|repair|gpu_info|quarantine|validate|accept"
TOO_BIG = 300 << 20  # of an archive, in bytes
Changes = list[dict[str, Any]]


class Target:
    """The folders of a run that an attack is about."""

    def __init__(self, folder: Path) -> None:
        self.home, self.controller = folder / "home", folder / "controller"
        self.evil = folder / "evil"
        self.program = folder / "forged-program"
        self.kubeconfig = str(self.evil / "forged-kubeconfig")
        self.tasks = str(self.evil / "forged-tasks.yml")
        self.template = f"{{{{ lookup('pipe', '{self.program}') }}}}"


def written(target: Target) -> dict[str, Any]:
    """Return variables that have the controller write what is another's."""
    return {
        "report_html_path": f"{target.home}/.bashrc",
        "report_json_path": "~/.config/forged.json",
        "validate_junit_path": f"{target.home}/.ssh/authorized_keys",
        "validate_json_path": "../home/.profile",
        "repair_evidence_folder": f"{target.controller}/host_vars",
    }


def sent(target: Target) -> dict[str, Any]:
    """Return variables that have the controller send a source tree of its own."""
    return {"__device_plugin_package": f"{target.home}/project"}


def wheelhouse(target: Target) -> dict[str, Any]:
    return {"device_plugin_wheelhouse": f"{target.home}/.ssh"}


def releases(target: Target) -> dict[str, Any]:
    return {"nvidia_driver_releases": f"{target.home}/.ssh/secret.yml"}


def ran(target: Target) -> dict[str, Any]:
    """Return variables that have the controller run what the node names."""
    tasks = [target.tasks]
    hooks = [name for name in variables.options() if "_hooks_" in name]
    files = {"files": tasks, "problems": []}
    return {
        **dict.fromkeys(hooks, tasks),
        "__rollout_hooks": {"before": files, "after": files, "failed": files},
        "__in_service_prepare": target.tasks,
        "__in_service_finish": target.tasks,
        "gpu_nodes_kubeconfig": target.kubeconfig,
        "__common_kubeconfig": target.kubeconfig,
        "gpu_nodes_pod_image": "registry.example.com/forged",
        "gpu_nodes_pod_command": [FORGED],
    }


def led_elsewhere(target: Target) -> dict[str, Any]:
    """Return variables that have the controller change another node, or in another way."""
    return {
        "gpu_nodes_node_name": VICTIM,
        "gpu_nodes_slurm_node_name": VICTIM,
        "gpu_nodes_slurm_controller": VICTIM,
        "gpu_nodes_context": FORGED,
        "gpu_nodes_pod_namespace": FORGED,
        "gpu_nodes_hosts": "all",
        "gpu_nodes_drain_timeout": NUMBER,
        "gpu_nodes_drain_grace_period": NUMBER,
        "gpu_nodes_pod_timeout": NUMBER,
        "__repair_budget": {"nodes": [VICTIM], "told": [], "problem": ""},
        "__rollout_settings": {"serial": [NUMBER], "problem": "", "aliases": [FORGED]},
        "__slurm_owner": FORGED,
    }


def limits(_target: Target) -> dict[str, Any]:
    """Return variables that say how many nodes may change, in which the nodes would disagree."""
    return {
        "gpu_nodes_serial": NUMBER,
        "gpu_nodes_max_unavailable": NUMBER,
        "gpu_nodes_max_fail_percentage": 0,
        "repair_max_unavailable": NUMBER,
    }


def connection(target: Target) -> dict[str, Any]:
    """Return variables that say how Ansible reaches a host."""
    program = str(target.program)
    return {
        "ansible_connection": "local",
        "ansible_host": "127.0.0.1",
        "ansible_python_interpreter": program,
        "ansible_playbook_python": program,
        "ansible_become": True,
        "ansible_become_exe": program,
        "ansible_become_method": FORGED,
        "ansible_become_user": FORGED,
        "ansible_shell_executable": program,
        "ansible_ssh_executable": program,
        "ansible_ssh_common_args": f"-o ProxyCommand={program}",
        "ansible_module_compression": FORGED,
        "ansible_delegated_vars": {"localhost": {"ansible_python_interpreter": program}},
        "environment": [{"PATH": str(target.evil)}],
    }


def identity(target: Target) -> dict[str, Any]:
    """Return variables by which Ansible tells a play who the host is, and where it is run from."""
    return {
        "inventory_hostname": VICTIM,
        "inventory_hostname_short": VICTIM,
        "group_names": [FORGED],
        "playbook_dir": str(target.evil),
        "role_path": str(target.evil),
        "inventory_dir": str(target.evil),
        "hostvars": {"localhost": {"__rollout_settings": {"serial": [NUMBER]}}},
        "groups": {"gpu_nodes": [VICTIM]},
    }


def every_string(target: Target) -> Changes:
    return [{"suffix": f" {target.template}"}]


def engine_keys(target: Target) -> dict[str, Any]:
    """Return keys of an answer that mean something to Ansible itself."""
    program = str(target.program)
    variables_of_host = {"ansible_python_interpreter": program, **led_elsewhere(target)}
    return {
        "add_host": {"host_name": VICTIM, "groups": ["gpu_nodes"], "host_vars": variables_of_host},
        "add_group": "gpu_nodes",
        "ansible_delegated_vars": {"localhost": variables_of_host},
        "_ansible_delegated_vars": {"ansible_delegated_host": VICTIM, **variables_of_host},
        "_ansible_facts_cacheable": True,
        "_ansible_ignore_errors": True,
        "_ansible_item_result": True,
        "_ansible_no_log": False,
        "_ansible_notify": [FORGED],
        "ansible_stats": {"data": {FORGED: NUMBER}, "per_host": False, "aggregate": False},
        "ansible_job_id": FORGED,
        "invocation": {"module_args": {"node": VICTIM, "kubeconfig": target.kubeconfig}},
        "discovered_interpreter_python": program,
        "include": target.tasks,
        "include_args": {"_raw_params": target.tasks},
        "item": VICTIM,
        "template": target.template,
        "unsafe": {"__ansible_unsafe": target.template},
    }


def tagged(target: Target) -> Changes:
    """Return a text with the marks by which Ansible knows whom it believes."""
    trusted = {"__ansible_type": "TrustedAsTemplate"}
    text = {"__ansible_type": "_AnsibleTaggedStr", "value": target.template, "tags": [trusted]}
    return [{"keys": {"lines": [text], "msg": text}}]


def vaulted(target: Target) -> Changes:
    """Return a text as one that a vault has."""
    return [{"keys": {"lines": [{"__ansible_vault": target.template}], "msg": target.template}}]


def with_facts(*values: Callable[[Target], dict[str, Any]]) -> Callable[[Target], Changes]:
    """Return an attack by variables, which come as facts and as keys of each answer."""

    def changes(target: Target) -> Changes:
        merged = {name: item for value in values for name, item in value(target).items()}
        return [{"facts": merged}, {"keys": {**merged, "forged": {"ansible_facts": merged}}}]

    return changes


def every_variable(target: Target) -> Changes:
    """Define every variable that the collection reads."""
    return [{"facts": variables.forged(str(target.program))}]


def aimed(target: Target) -> Changes:
    """Define what does most, and go on as a node that is well."""
    lists = ("lines", "notes", "told")
    merged = {**written(target), **sent(target), **ran(target), **led_elsewhere(target)}
    return [
        {"facts": {**merged, **connection(target), **identity(target)}},
        {"keys": engine_keys(target)},
        {"keys": {name: [target.template] for name in lists}, "module": "repair|plan|validate"},
        evidence(ARCHIVES[0]),
    ]


def alike(*changes: dict[str, Any]) -> Callable[[Target], Changes]:
    """Return an attack that is the same in each folder."""
    return lambda _target: list(changes)


SHAPES: dict[str, Any] = {
    "null": None,
    "text": "x",
    "number": -1,
    "list": [{"uuid": "../x", "name": None}, None, "x"],
    "object": {"": None, "x": [None]},
}
# What is tried against each playbook. Those with facts come first: they were the ones that worked.
ATTACKS: dict[str, Callable[[Target], Changes]] = {
    "aimed": aimed,
    "files to write": with_facts(written),
    "files to send": with_facts(sent),
    "wheels to send": with_facts(wheelhouse),
    "table to send": with_facts(releases),
    "programs": with_facts(ran),
    "other nodes": with_facts(led_elsewhere),
    "limits": with_facts(limits),
    "connection": with_facts(connection),
    "identity": with_facts(identity),
    "every variable": every_variable,
    "engine": lambda target: [{"keys": engine_keys(target)}],
    "templates": every_string,
    "tagged": tagged,
    "vaulted": vaulted,
    "messages": alike({"messages": MANY}),
    "huge": alike({"width": HUGE, "module": OWN}),
    "wide": alike({"width": WIDE}),
    "deep": alike({"depth": DEEP}),
    "unreachable": alike({"keys": {"unreachable": True, "msg": "x"}}),
    "skipped": alike({"keys": {"skipped": True, "failed": False, "changed": True}}),
    "results": alike({"keys": {"results": [{"ansible_facts": {"x": 1}, "failed": True}, None]}}),
    "no answer": alike({"raw": ""}),
    "no object": alike({"raw": '["x"]'}),
    "two answers": alike({"raw": '{"changed": false}{"failed": true}'}),
    "not a number": alike({"raw": '{"changed": false, "parts": NaN, "gpus": Infinity}'}),
    "surrogates": alike({"raw": '{"changed": false, "msg": "\\ud800", "lines": ["\\udfff"]}'}),
    **{f"every key is a {name}": alike({"shape": value}) for name, value in SHAPES.items()},
}
# What a node says is the evidence, by its name below the node's own folder, or with what it is in the place of a file.
ARCHIVES: tuple[dict[str, Any], ...] = (
    {"name": "evil.yml"},
    {"name": "main.yml"},
    {"name": "evil.tar.gz/evil.yml"},
    {"name": ".bashrc"},
    {"name": "a\nb"},
    {"name": "{{ inventory_hostname }}"},
    {"path": "../../controller/kubeconfig"},
    {"path": ".."},
    {"path": ["x"]},
    {"name": "big.tar.gz", "size": TOO_BIG},
)


def evidence(archive: dict[str, Any]) -> dict[str, Any]:
    """Return how a node names what is none of its evidence."""
    return {"module": "gpu_evidence", "archive": archive}
