# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the task files of hooks where their users put them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hook_files
short_description: Find the task files of hooks
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Looks for a task file in the folder of the playbooks that are run, in the folder of the inventory, and in the folder
    where Ansible was started, in this order. The collection's own come last, by their names, such as V(slurm_drain),
    also with their folder, as in V(hooks/slurm_drain.yml).
options:
  _terms:
    description: Lists of names of variables that have lists of task files. Those that are not set are left out.
    type: list
    elements: list
    required: true
  options:
    description: Values of these variables, as M(gpu.node.pin_options) returns them. Left out, those of the task count.
    type: dict
"""

EXAMPLES = r"""
- name: Find hooks
  ansible.builtin.set_fact:
    hooks: "{{ lookup('gpu.node.hook_files', ['gpu_nodes_hooks_before', 'mig_hooks_before']) }}"
"""

RETURN = r"""
_list:
  description: For each term C(files), their paths, and C(problems), what is wrong with some.
  type: list
  elements: dict
"""

import os
import typing as t

from ansible import context
from ansible.plugins.lookup import LookupBase

SHIPPED = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "playbooks", "hooks"
)
EXPECTED = "expected a list of task files. Next step: write it as a list, such as [drain.yml]"


def folders(variables: t.Mapping[str, t.Any], playbooks: t.Sequence[str]) -> list[str]:
    """Return where hooks are looked for, nearest first."""
    started = os.getcwd()
    own = [
        os.path.dirname(os.path.abspath(playbook))
        for playbook in playbooks
        if os.path.isfile(playbook)
    ]
    sources = [str(source) for source in variables.get("ansible_inventory_sources") or ()]
    beside = [str(variables.get("inventory_dir") or ""), *map(_folder, sources)]
    return list(dict.fromkeys([*own, *filter(None, beside), started]))


def _folder(source: str) -> str:
    """Return the folder of an inventory, empty where it is a list of hosts."""
    path = os.path.abspath(source)
    if os.path.isdir(path):
        return path
    return os.path.dirname(path) if os.path.exists(path) else ""


def find(name: str, places: t.Sequence[str]) -> str:
    """Return the path of a task file, empty where there is none."""
    tried = [os.path.join(place, os.path.expanduser(name)) for place in places]
    shipped = name if name.endswith((".yml", ".yaml")) else f"{name}.yml"
    tried += [os.path.join(SHIPPED, shipped), os.path.join(os.path.dirname(SHIPPED), shipped)]
    return next((path for path in tried if os.path.isfile(path)), "")


def search(variable: str, value: t.Any, places: t.Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files of a variable, and what is wrong with it."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(file, str) for file in value):
        return [], [f"{variable}: {value!r} is not valid: {EXPECTED}"]
    paths = {str(file): find(str(file), places) for file in value}
    looked = f"in {', '.join([*places, SHIPPED])}"
    problems = [
        f"{variable}: {file!r} was not found{'' if os.path.isabs(file) else f': looked {looked}'}."
        " Next step: correct the path, or give it in full"
        for file, path in paths.items()
        if not path
    ]
    return [path for path in paths.values() if path], problems


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: t.Sequence[t.Any], variables: t.Any = None, **kwargs: t.Any
    ) -> list[dict[str, list[str]]]:
        """Run the lookup."""
        self.set_options(var_options=variables, direct=kwargs)
        declared = self.get_option("options")
        values = variables or {} if declared is None else declared
        sources = (variables or {}).get("ansible_inventory_sources")
        beside = {**values, "ansible_inventory_sources": sources}
        places = folders(beside, context.CLIARGS.get("args") or ())
        answer = []
        for names in terms:
            there = {name: self._templar.template(values[name]) for name in names if name in values}
            pairs = [search(name, value, places) for name, value in there.items()]
            files = [path for paths, _problems in pairs for path in paths]
            answer.append(
                {
                    "files": files,
                    "problems": [problem for _f, problems in pairs for problem in problems],
                }
            )
        return answer
