# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A callback of Ansible's that kills it where a task would begin: what came before is done, and nothing after.

CUT_OFF_AT is the task's name without its role. If that is empty it is the first task on a node whose name is not in the
file of CUT_OFF_LOG, to which the name is added.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

# What Ansible does on the controller: where it is killed there, the node is as it was before.
CONTROLLER = {"assert", "debug", "fail", "include_role", "include_tasks", "meta", "set_fact"}
CONTROLLER |= {"import_role", "import_tasks", "validate_argument_spec"}


class CallbackModule(CallbackBase):
    """It is asked before a task is given to any node."""

    CALLBACK_VERSION, CALLBACK_NAME, CALLBACK_NEEDS_ENABLED = 2.0, "cut_off", False

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Kill this process if it is the task."""
        log, name = Path(os.environ["CUT_OFF_LOG"]), task.get_name().rpartition(" : ")[2]
        seen = log.read_text().splitlines() if log.exists() else []
        if wanted := os.environ["CUT_OFF_AT"]:
            cut = name == wanted
        else:
            cut = name not in seen and task.action.rpartition(".")[2] not in CONTROLLER
        if cut:
            log.write_text("\n".join([*seen, name]) + "\n")
            os.kill(os.getpid(), signal.SIGKILL)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """Do so at a handler, of which Ansible tells in another way."""
        self.v2_playbook_on_task_start(task, is_conditional=False)
