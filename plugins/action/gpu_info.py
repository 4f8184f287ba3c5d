# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of gpu.node.gpu_info, and, by meta/runtime.yml, of all modules that need no more of it."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.plugin_utils.controller.node_module import (
    NodeModuleAction,
)


class ActionModule(NodeModuleAction):
    """Runs the task's module."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> t.Dict[str, t.Any]:
        """Run the action."""
        super().run(tmp, task_vars)
        return self.run_module(self._task.args, task_vars)
