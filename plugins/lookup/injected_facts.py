# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Warn, once in a run, where Ansible makes variables of the facts that nodes answer."""

from __future__ import annotations

DOCUMENTATION = r"""
name: injected_facts
short_description: Warn where Ansible makes variables of the facts that nodes answer
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - With Ansible's setting C(INJECT_FACTS_AS_VARS), which is on by default, what a node answers as C(ansible_facts)
    becomes variables of the run, above those of the inventory. This warns of it once in a run, whatever the number of
    hosts that ask.
"""

EXAMPLES = r"""
- name: Warn where facts become variables
  ansible.builtin.assert:
    that: query('gpu.node.injected_facts') is sequence
    quiet: true
"""

RETURN = r"""
_list:
  description: The warning. It has no element if the setting is off.
  type: list
  elements: str
"""

import contextvars
import typing as t

from ansible import constants
from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible_collections.gpu.node.plugins.plugin_utils.controller.facts_setting import (
    SETTING,
    injected_facts_warning,
)


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms: t.Sequence[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """Run the lookup."""
        warning = injected_facts_warning(constants.config.get_config_value(SETTING))
        if warning:
            # Outside of the task's context, where it would become a warning of each host.
            contextvars.Context().run(Display().warning, warning)
        return [warning] if warning else []
