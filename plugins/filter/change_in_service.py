# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Say whether a node is in the middle of another run's change."""

from __future__ import annotations

DOCUMENTATION = r"""
name: change_in_service
short_description: Say whether a node is in the middle of another run's change
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - A change of a node that runs workloads leaves a marker until the node is back in service. This tells a change that
    was cut off or has failed, which another run takes over, from one that goes on.
options:
  _input:
    description: What M(gpu.node.gpu_info) returns as RV(gpu.node.gpu_info#module:gpu_info.change).
    type: dict
    required: true
  change:
    description: The change that would begin; without one it is a run that does not put nodes back in service.
    type: str
    default: ""
  take_over:
    description: Whether changes that other controllers have begun are known to be over.
    type: bool
    default: false
  after:
    description: After how many seconds a change that another controller has begun is over.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Refuse a node in the middle of a change
  ansible.builtin.fail:
    msg: "{{ found.refused }}"
  when: found.refused | length > 0
  vars:
    found: "{{ node.gpu_info.change | gpu.node.change_in_service(after=3600) }}"
"""

RETURN = r"""
_value:
  description:
    - C(refused) says why the node may not be touched, and is empty if it may. C(begun) says whether a change has begun
      there that a run must end, with its C(cause).
    - C(text) is what the marker of a change that begins now holds, in place of the one with the SHA-256 C(seen).
    - C(holder) says in words who would begin it, and C(before) who began the one that is there.
  type: dict
"""

import json
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._node.in_service import (
    Asked,
    from_answer,
    refusal,
)
from ansible_collections.gpu.node.plugins.plugin_utils.controller.run import lives, this_run


def change_in_service(
    standing: t.Mapping[str, t.Any], change: str = "", take_over: bool = False, after: float = 0
) -> dict[str, t.Any]:
    """Return what to make of the change that stands on a node."""
    change_there = from_answer(standing)
    me, asked = this_run(change), Asked(take_over, float(after))
    refused = refusal(change_there, me, asked, lives, finishes=bool(change)) if standing else ""
    return {
        "refused": refused,
        "begun": bool(standing) and not refused,
        "cause": change_there.cause if standing else "",
        "text": json.dumps(me._asdict()),
        "seen": digest if isinstance(digest := standing.get("digest", ""), str) else "",
        "holder": me.holder,
        "before": change_there.holder if standing else "",
    }


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return it by its name."""
        return {"change_in_service": change_in_service}
