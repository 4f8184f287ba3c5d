# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put what gpu.node.validate found on all nodes of a play into one file."""

from __future__ import annotations

DOCUMENTATION = r"""
name: validation_report
short_description: Put what gpu.node.validate found on all nodes into one file
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Returns a JUnit file with a suite for each node, or JSON with the same content.
  - A node whose answer is not understood is in it as one that fails.
options:
  _input:
    description: The names of the nodes.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts, as C(hostvars) has them.
    type: dict
    required: true
  variable:
    description: The variable in which each node has the answer of M(gpu.node.validate).
    type: str
    required: true
  pods:
    description:
      - The variable in which a node has the answer of M(gpu.node.validate_pods), whose checks go with the others. A
        node may have none.
    type: str
    default: ""
  form:
    description: What is returned.
    type: str
    choices: [junit, json]
    default: junit
seealso:
  - module: gpu.node.validate
"""

EXAMPLES = r"""
- name: Write a JUnit file
  ansible.builtin.copy:
    content: "{{ ansible_play_hosts_all | gpu.node.validation_report(hostvars, 'checked') }}"
    dest: /tmp/validation.xml
    mode: "0644"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description: The file's text.
  type: str
"""

import json
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpu.node.plugins.module_utils._checks.validate import report


def validation_report(
    hosts: t.Iterable[str],
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    variable: str,
    form: str = "junit",
    pods: str = "",
) -> str:
    """Return the text of a report in a form."""
    if form not in ("junit", "json"):
        raise AnsibleFilterError(f"validation_report: form: {form!r} is not junit or json")
    results = {str(host): _result(hostvars.get(host) or {}, variable, pods) for host in hosts}
    if form == "junit":
        return report.junit(results)
    return json.dumps(report.data(results), indent=2) + "\n"


def _result(known: t.Mapping[str, t.Any], variable: str, pods: str) -> t.Mapping[str, t.Any] | None:
    answer = known.get(variable)
    if not isinstance(answer, t.Mapping) or "checks" not in answer:
        return None
    return {**answer, "pods": known.get(pods)}


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return it by its name."""
        return {"validation_report": validation_report}
