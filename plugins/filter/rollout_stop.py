# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Say why a roll-out ends before its next batch."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rollout_stop
short_description: Say why a roll-out ends before its next batch
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Counts the nodes that failed over all batches. Without this a playbook goes on as long as one node of each batch
    is left, and always ends where the only node of a batch fails.
options:
  _input:
    description: Variables by node, as C(hostvars) has them. What became of a node is in C(__rollout_node).
    type: dict
    required: true
  nodes:
    description: The nodes of the roll-out.
    type: list
    elements: str
    required: true
  settings:
    description: What P(gpu.node.rollout_settings#filter) has returned.
    type: dict
    required: true
  batch:
    description: The nodes of the batch that would begin.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: End the roll-out
  ansible.builtin.meta: end_play
  when: hostvars | gpu.node.rollout_stop(ansible_play_hosts_all, rollout, ansible_play_batch) | length > 0
"""

RETURN = r"""
_value:
  description: Why the roll-out ends, empty where it goes on.
  type: str
"""

import typing as t

from ansible_collections.gpu.node.plugins.plugin_utils.controller import rollout


def rollout_stop(
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    nodes: t.Sequence[str],
    settings: t.Mapping[str, t.Any],
    batch: t.Sequence[str] = (),
) -> str:
    """Say why the next batch may not begin."""
    limits = rollout.Settings(
        max_unavailable=settings["max_unavailable"],
        max_fail_percentage=settings["max_fail_percentage"],
    )
    return rollout.stopped({node: _node(hostvars[node]) for node in nodes}, limits, batch)


def _node(variables: t.Mapping[str, t.Any]) -> rollout.RolloutNode:
    answer = variables.get("__rollout_node") or {}
    return rollout.RolloutNode(answer.get("state", ""), tuple(answer.get("batch", ())))


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"rollout_stop": rollout_stop}
