# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Say which variables have a value that cannot be read."""

from __future__ import annotations

DOCUMENTATION = r"""
name: unreadable
short_description: Say which variables have a value that Ansible can't read
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Renders variables, and names those that are encrypted with a password that was not given, or that refer to what is
    not there. Ansible itself does not say which of several it was.
options:
  _terms:
    description: Names of variables. Those that are not set are left out.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse variables that can't be read
  ansible.builtin.assert:
    that: query('gpu.node.unreadable', 'mig_config', 'mig_selected') | length == 0
"""

RETURN = r"""
_list:
  description: For each variable that Ansible can't read, its name and the reason.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms: t.Sequence[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """Run the lookup."""
        known = variables or {}
        reasons = {name: self._why(known[name]) for name in map(str, terms) if name in known}
        return [f"{name}: it can't be read: {reason}" for name, reason in reasons.items() if reason]

    def _why(self, value: t.Any) -> str:
        try:
            self._templar.template(value)
        except AnsibleError as error:
            return str(error).rstrip(".")
        return ""
