# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the argument specs of the collection's roles."""

from __future__ import annotations

DOCUMENTATION = r"""
name: argument_specs
short_description: Read the argument specs of this collection's roles
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Returns what is in C(meta/argument_specs.yml) of roles of this collection. It is read once for a task, however often
    the task asks, which counts where there are hundreds of nodes.
options:
  _terms:
    description: Names of roles, without the collection's. Without any, all of its roles are meant.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show the options of a role
  ansible.builtin.debug:
    msg: "{{ lookup('gpu.node.argument_specs', 'mig').argument_specs.main.options.keys() }}"
"""

RETURN = r"""
_list:
  description: For each role its argument specs.
  type: list
  elements: dict
"""

import functools
import os
import typing as t

import yaml
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

ROLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "roles")
# The loader of libyaml takes a tenth of the time; PyYAML may have been built without it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def list_roles() -> t.List[str]:
    """Return the names of the roles that have argument specs."""
    return sorted(
        name
        for name in os.listdir(ROLES)
        if os.path.exists(os.path.join(ROLES, name, "meta", "argument_specs.yml"))
    )


@functools.cache
def read_specs(role: str) -> t.Mapping[str, t.Any]:
    """Return the argument specs of a role.

    Raises:
        AnsibleLookupError: if the collection has no role of that name with argument specs.
    """
    path = os.path.join(ROLES, role, "meta", "argument_specs.yml")
    try:
        with open(path, encoding="utf-8") as stream:
            specs: t.Mapping[str, t.Any] = yaml.load(stream, LOADER)
    except OSError as error:
        raise AnsibleLookupError(
            f"argument_specs: {role!r} is not valid: expected the name of a role of gpu.node"
            f" ({os.strerror(error.errno or 0)})"
        ) from error
    return specs


class LookupModule(LookupBase):  # type: ignore[misc]
    """The lookup gpu.node.argument_specs."""

    def run(
        self, terms: t.Sequence[str], variables: t.Any = None, **kwargs: t.Any
    ) -> t.List[t.Mapping[str, t.Any]]:
        """Return the argument specs of the roles in ``terms``, or of all roles."""
        return [read_specs(str(term)) for term in terms or list_roles()]
