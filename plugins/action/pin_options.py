# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pin the options that tasks on the controller read, before a node has answered or whatever it has."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpu.node.plugins.plugin_utils.controller import declared

STEP = (
    "write it without what a node says of itself, such as inventory_hostname in the place of ansible_hostname, or give"
    " the vault's password"
)


class ActionModule(ActionBase):
    """Returns the operator's options, rendered without facts."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> t.Dict[str, t.Any]:
        """Run the action."""
        super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        options, unreadable = declared.read_options(self._task, self._templar, task_vars)
        if unreadable:
            reasons = "; ".join(option.text for option in unreadable)
            raise AnsibleActionFail(
                f"variables: {declared.hostname(task_vars)}: {reasons}. Next step: {STEP}"
            )
        return {"changed": False, "options": options}
