# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the load tests of GPUs of one kind over all nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_floors
version_added: 0.2.0
short_description: Compare the load tests of GPUs of one kind over all nodes
author: the gpu.node authors (@gpu-node)
description:
  - Names GPUs whose figures of M(gpu.node.accept) are lower than those of others of the same product, board, and driver
    scatter. There must be eight of them, of which no node has half.
  - The playbook C(gpu.node.accept) uses it, and tests those GPUs again.
options:
  _input:
    description: The variables of all nodes, C(hostvars).
    type: dict
    required: true
  nodes:
    description: The names of the nodes.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Say which GPUs are slower than others of their kind
  ansible.builtin.debug:
    msg: "{{ (hostvars | gpu.node.fleet_floors(ansible_play_hosts_all)).slow }}"
"""

RETURN = r"""
_value:
  description:
    - In C(slow) a line for each figure that is too low, and in C(tests) the tests to run again, by node. Each has its
      C(gpus), by UUID, and the C(floors) of their figures.
  type: dict
"""

import typing as t

from ansible_collections.gpu.node.plugins.plugin_utils.controller import fleet_floors as fleet


def fleet_floors(
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]], nodes: t.Sequence[str]
) -> dict[str, t.Any]:
    """Return the GPUs that are slower than others of their kind."""
    answers = {}
    for node in nodes:
        answer = hostvars[node].get("__accept_result")
        rows = answer.get("gpus") if isinstance(answer, dict) else None
        answers[node] = rows if isinstance(rows, list) else []
    return fleet.fleet_floors(answers)


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return it by its name."""
        return {"fleet_floors": fleet_floors}
