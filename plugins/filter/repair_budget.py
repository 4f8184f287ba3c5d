# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Choose the nodes that are repaired now."""

from __future__ import annotations

DOCUMENTATION = r"""
name: repair_budget
short_description: Choose the nodes that are repaired now
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Counts the nodes of a fleet that are out of service or in repair, by what each of them reported last, and chooses
    those that may be repaired in addition.
options:
  _input:
    description:
      - Variables by node, as C(hostvars) has them. What M(gpu.node.repair) has returned is in C(__repair_seen).
    type: dict
    required: true
  nodes:
    description: The nodes of the fleet.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Choose the nodes that are repaired now
  ansible.builtin.set_fact:
    budget: "{{ hostvars | gpu.node.repair_budget(ansible_play_hosts_all) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - The nodes that are repaired now, in C(nodes); in C(told), in words, why others are not; and in C(problem) what is
      wrong with C(repair_max_unavailable), empty where nothing is.
  type: dict
"""

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._node.in_service import (
    Asked,
    Change,
    refusal,
)
from ansible_collections.gpu.node.plugins.plugin_utils.controller import repair_budget as budgets
from ansible_collections.gpu.node.plugins.plugin_utils.controller import rollout
from ansible_collections.gpu.node.plugins.plugin_utils.controller.run import lives, this_run

DEFAULT = "10%"
CHANGE = "repair"
TRUE = (True, "true", "yes", "True", 1)


def repair_budget(
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]], nodes: t.Sequence[str]
) -> dict[str, t.Any]:
    """Return the nodes that are repaired now."""
    given = {one: hostvars[one] for one in nodes}
    values = {
        one: variables[budgets.VARIABLE]
        for one, variables in given.items()
        if budgets.VARIABLE in variables
    }
    try:
        limit = rollout.agreed({budgets.VARIABLE: values}, budgets.VARIABLE, rollout.size)
    except InputError as error:
        return {"problem": str(error), "nodes": [], "told": []}
    found = budgets.budget({one: _node(given[one]) for one in nodes}, limit or DEFAULT)
    return {"problem": "", "nodes": list(found.nodes), "told": list(found.told)}


def _node(variables: t.Mapping[str, t.Any]) -> budgets.Node:
    seen = variables.get("__repair_seen") or {}
    if not seen or seen.get("unreachable"):
        return budgets.Node(answers=False)
    if "work" not in seen:
        return budgets.Node(refused=str(seen.get("msg") or "it can't be judged"), needed=True)
    work, standing = seen["work"], seen["change"]
    ours = standing.get("change") == CHANGE
    needed = bool(work["works"] or work["fence"] or work["close"] or work["new"] or ours)
    refused = seen["refused"] or _of_another(variables, standing, seen)
    return budgets.Node(True, bool(seen["in_repair"] or standing), refused, needed)


def _of_another(
    variables: t.Mapping[str, t.Any], standing: t.Mapping[str, t.Any], seen: t.Mapping[str, t.Any]
) -> str:
    """Say which other run has the node, empty where none has, or where it is over."""
    found = Change.of(standing)
    asked = Asked(
        variables.get("gpu_nodes_take_over", False) in TRUE,
        float(variables.get("gpu_nodes_take_over_after", 43200)),
    )
    refused = refusal(found, this_run(CHANGE), asked, lives, finishes=True) if standing else ""
    # A lease goes with its marker: where the run that left both is over, so is its lease.
    its_own = standing and seen["lease"].get("holder") == found.holder
    return refused or ("" if its_own else str(seen["held"]))


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return it by its name."""
        return {"repair_budget": repair_budget}
