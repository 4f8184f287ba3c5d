# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put what gpu.node.plan found on all nodes of a play into one page."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_report
short_description: Put what gpu.node.plan found on all nodes into one page
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Returns an HTML page that needs nothing else, or JSON with the same content.
  - Nodes that could not be reached, or not be planned, or whose answer is not understood, are in it as such.
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
    description: The variable in which each node has the answer of M(gpu.node.plan), with its option C(status).
    type: str
    required: true
  info:
    description:
      - The variable in which a node has the answer of M(gpu.node.gpu_info), which is shown where it could not be
        planned. A node may have none.
    type: str
    default: ""
  form:
    description: What is returned. V(line) is how many nodes there are and how many of them have drifted.
    type: str
    choices: [html, json, line]
    default: html
  title:
    description: The page's title.
    type: str
    default: GPU nodes
  made:
    description: The report's time in ISO 8601; now, if it is not given.
    type: str
    default: ""
seealso:
  - module: gpu.node.plan
"""

EXAMPLES = r"""
- name: Look at the nodes
  gpu.node.plan:
    status: true
  register: looked

- name: Write a page
  ansible.builtin.copy:
    content: "{{ ansible_play_hosts_all | gpu.node.fleet_report(hostvars, 'looked') }}"
    dest: /tmp/gpus.html
    mode: "0644"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description: The file's text.
  type: str
"""

import datetime
import json
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpu.node.plugins.plugin_utils.report.cases import models_by_device_id
from ansible_collections.gpu.node.plugins.plugin_utils.report.nodes import (
    fleet,
    line,
    node,
    of_gpus,
)
from ansible_collections.gpu.node.plugins.plugin_utils.report.page import page

Answer = t.Optional[t.Mapping[str, t.Any]]
FORMS: dict[str, t.Callable[[dict[str, t.Any]], str]] = {
    "html": page,
    "json": lambda report: json.dumps(report, indent=2) + "\n",
    "line": line,
}


def fleet_report(
    hosts: t.Iterable[str],
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    variable: str,
    info: str = "",
    form: str = "html",
    title: str = "GPU nodes",
    made: str = "",
) -> str:
    """Return the text of a report in a form."""
    if form not in FORMS:
        raise AnsibleFilterError(f"fleet_report: form: {form!r} is not one of {', '.join(FORMS)}")
    answers = []
    for host in hosts:
        known = hostvars.get(host) or {}  # which takes its time, and so is read once
        answers.append((str(host), _answer(known, variable), _answer(known, info)))
    names = models_by_device_id(of_gpus(answer, other) for _host, answer, other in answers)
    nodes = [node(host, answer, other, names) for host, answer, other in answers]
    return FORMS[form](fleet(title, made or _timestamp(), nodes))


def _answer(known: t.Mapping[str, t.Any], variable: str) -> Answer:
    answer = known.get(variable)
    return answer if isinstance(answer, t.Mapping) else None


def _timestamp() -> str:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None).isoformat("T", "seconds") + "Z"


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return it by its name."""
        return {"fleet_report": fleet_report}
