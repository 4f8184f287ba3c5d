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
  - A node for which nothing was done in twelve hours, which is longer than a run takes, waits for a person. It is named
    and does not count, so that it does not keep the others from their repair.
  - A node whose answer is not that of M(gpu.node.repair) is not repaired, and does not count either.
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
    - The nodes that are repaired now, in C(nodes); in C(reasons), in words, why others are not; and in C(problem) what
      is wrong with C(repair_max_unavailable), empty where nothing is.
  type: dict
"""

import json
import time
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.text.strict import seconds
from ansible_collections.gpu.node.plugins.module_utils._node.in_service import (
    Asked,
    Change,
    from_answer,
    refusal,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    LEASE_SECONDS,
    TOLERANCE,
    VERSION,
    parse_cases,
)
from ansible_collections.gpu.node.plugins.plugin_utils.controller import answers, rollout
from ansible_collections.gpu.node.plugins.plugin_utils.controller import repair_budget as budgets
from ansible_collections.gpu.node.plugins.plugin_utils.controller.declared import pinned_options
from ansible_collections.gpu.node.plugins.plugin_utils.controller.run import lives, this_run

DEFAULT = "10%"
CHANGE = "repair"
JUDGED = ("change", "refused", "held")  # which an answer has where the node was read
TRUE = (True, "true", "yes", "True", 1)


def repair_budget(
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]], nodes: t.Sequence[str]
) -> dict[str, t.Any]:
    """Return the nodes that are repaired now."""
    options = {node: pinned_options(hostvars[node]) for node in nodes}
    values = {
        node: declared[budgets.VARIABLE]
        for node, declared in options.items()
        if budgets.VARIABLE in declared
    }
    try:
        limit = rollout.agreed({budgets.VARIABLE: values}, budgets.VARIABLE, rollout.size)
    except InputError as error:
        return {"problem": str(error), "nodes": [], "reasons": []}
    moment = _time()
    fleet = {node: _node(hostvars[node], options[node], moment) for node in nodes}
    chosen = budgets.budget(fleet, limit or DEFAULT)
    return {"problem": "", "nodes": list(chosen.nodes), "reasons": list(chosen.reasons)}


def _time() -> float:
    return time.time()


def _node(
    variables: t.Mapping[str, t.Any], options: t.Mapping[str, t.Any], moment: float
) -> budgets.BudgetNode:
    """Return what counts of a node's answer, which is held against RETURN here, too: others' tasks may register it."""
    answer = variables.get("__repair_seen") or {}
    if not answer or answer.get("unreachable"):
        return budgets.BudgetNode(answers=False)
    problem = answers.check(dict(answer), answers.documented("repair"), whole=True).problem
    is_judged = answer.get("work") and all(answer.get(key) is not None for key in JUDGED)
    if problem or not is_judged:
        reason = problem or str(answer.get("msg") or "")
        return budgets.BudgetNode(refused=f"it can't be judged: {reason}".rstrip(" :"), needed=True)
    work, change = answer["work"], from_answer(answer["change"])
    ours = change.change == CHANGE
    needed = bool(work["works"] or work["fence"] or work["close"] or work["new"] or ours)
    try:
        since = _stands_since(answer, change)
    except (NodeError, ValueError) as error:
        return budgets.BudgetNode(refused=f"it can't be judged: {error}", needed=True)
    refused = answer["refused"] or _of_another(options, answer, change)
    return budgets.BudgetNode(
        out=bool(answer["in_repair"] or answer["change"]),
        counts=moment - LEASE_SECONDS <= since <= moment + TOLERANCE,
        refused=refused,
        needed=needed,
    )


def _stands_since(answer: t.Mapping[str, t.Any], change: Change) -> float:
    """Return when something was last done for a node's repair or change, as it tells, in seconds since 1970.

    Raises:
        NodeError: if its cases are not what repair.json may have.
        ValueError: if the time at which its change has begun is none.
    """
    data = {"version": VERSION, "lease": answer["lease"] or None, "gpus": answer["cases"]}
    begun = seconds(change.begun) if change.begun else 0.0
    return max(parse_cases(json.dumps(data)).latest, begun)


def _of_another(
    options: t.Mapping[str, t.Any], answer: t.Mapping[str, t.Any], change: Change
) -> str:
    """Return which other run has the node, empty if none has, or if it is over."""
    asked = Asked(
        options.get("gpu_nodes_take_over", False) in TRUE,
        float(options.get("gpu_nodes_take_over_after", 43200)),
    )
    standing = bool(answer["change"])
    refused = refusal(change, this_run(CHANGE), asked, lives, finishes=True) if standing else ""
    # A lease goes with its marker: where the run that left both is over, so is its lease.
    its_own = standing and answer["lease"].get("holder") == change.holder
    return refused or ("" if its_own else answer["held"])


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return it by its name."""
        return {"repair_budget": repair_budget}
