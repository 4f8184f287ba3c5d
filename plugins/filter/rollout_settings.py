# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read from the nodes' variables how a roll-out is to go."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rollout_settings
short_description: Read from the nodes' variables how a roll-out is to go
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Reads C(gpu_nodes_serial), C(gpu_nodes_max_unavailable), and C(gpu_nodes_max_fail_percentage) of all nodes of a
    roll-out, wherever they are written. A play's C(serial) is read before there are variables of nodes.
options:
  _input:
    description: Variables by node, as C(hostvars) has them. Their options are in C(__pinned).
    type: dict
    required: true
  nodes:
    description: The nodes of the roll-out.
    type: list
    elements: str
    required: true
  aliases:
    description: Older names of C(gpu_nodes_serial).
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Read how many nodes may change at a time
  ansible.builtin.set_fact:
    rollout: "{{ hostvars | gpu.node.rollout_settings(ansible_play_hosts_all) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: The settings, C(problem) with what is wrong with them, and C(aliases), the older names that are used.
  type: dict
"""

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.plugin_utils.controller import rollout
from ansible_collections.gpu.node.plugins.plugin_utils.controller.declared import pinned_options

NAMES = (rollout.SERIAL, rollout.UNAVAILABLE, rollout.FAIL_PERCENTAGE)


def rollout_settings(
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    nodes: t.Sequence[str],
    aliases: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """Return the settings, or what is wrong with them."""
    values: dict[str, dict[str, t.Any]] = {}
    for node in nodes:
        options = pinned_options(hostvars[node])
        for name in (*NAMES, *aliases):
            if name in options:
                values.setdefault(name, {})[node] = options[name]
    try:
        settings, old = rollout.settings(values, aliases)
    except InputError as error:
        return {"problem": str(error), "aliases": [], **rollout.Settings()._asdict()}
    return {"problem": "", "aliases": old, **settings._asdict(), "serial": list(settings.serial)}


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"rollout_settings": rollout_settings}
