# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Say which of a play's tasks have not reached their node."""

from __future__ import annotations

DOCUMENTATION = r"""
name: unreached
short_description: Say which of a play's tasks have not reached their node
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Ansible takes a node that does not answer out of a play, without a rescue, or with C(ignore_unreachable) goes on
    with the next task as if nothing had been. This finds such results among those that were registered, so that a
    task can fail of them.
options:
  _terms:
    description: How the names of the variables begin that results are registered in.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Fail where the node does not answer
  ansible.builtin.fail:
    msg: "{{ query('gpu.node.unreached', 'my_') | first }}"
  when: query('gpu.node.unreached', 'my_') | length > 0
"""

RETURN = r"""
_list:
  description: Ansible's message about each of them.
  type: list
  elements: str
"""

import typing as t

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms: t.Sequence[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """Run the lookup."""
        beginnings = tuple(map(str, terms))
        return [
            str(value.get("msg") or "the node does not answer")
            for name, value in (variables or {}).items()
            if name.startswith(beginnings)
            and isinstance(value, dict)
            and value.get("unreachable") is True
        ]
