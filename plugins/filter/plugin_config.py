# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Merge a configuration of the device plugin over the role's default."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plugin_config
short_description: Merge a configuration of the device plugin over the role's default
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Mappings are merged key by key, in the order of what is given; lists and values replace those of the default.
  - The role's default has C(version) v1, C(flags.migStrategy) mixed and C(flags.plugin.deviceListStrategy)
    cdi-annotations and cdi-cri.
positional: sharing
options:
  _input:
    description: The configuration, in the device plugin's v1 schema, or a part of one.
    type: dict
    required: true
  sharing:
    description: The section C(sharing), which it replaces where it is not empty.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show what a node would be configured with
  ansible.builtin.debug:
    msg: "{{ {'gpuNode': {'metricsAddress': '10.0.0.5:9402'}} | gpu.node.plugin_config }}"
"""

RETURN = r"""
_value:
  description: The whole configuration.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.role_config import whole
from ansible_collections.gpu.node.plugins.plugin_utils.controller.unread import problems


def merge(config: t.Any, sharing: t.Any = None) -> t.Any:
    """Return a configuration over the role's default.

    Raises:
        AnsibleFilterError: if one of them is a text, or is within a ConfigMap.
    """
    for name, value in (("device_plugin_config", config), ("device_plugin_sharing", sharing)):
        for problem in problems(name, name, value):
            raise AnsibleFilterError(f"{problem.text}. Next step: {problem.hint}")
    return whole(config, sharing)


class FilterModule:
    """The collection's filters."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"plugin_config": merge}
