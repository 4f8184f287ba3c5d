# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Write each task that has run for a host as a line of JSON into the file that RECORDED names."""

from __future__ import annotations

import json
import os
from functools import partialmethod
from typing import Any

from ansible.plugins.callback import CallbackBase

MOST = 2000  # characters of a message
DOCUMENTATION = """
name: recorder
type: notification
short_description: Write what each task was given
description: Write what each task was given, for which host, where it ran and how it ended.
"""


class CallbackModule(CallbackBase):
    """Keeps the tasks of a run, and each item of a loop."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "recorder"

    def _keep(self, result: Any, outcome: str, **_options: Any) -> None:
        fields = result.task_fields
        line = {
            "host": result.host.get_name(),
            "task": result.task.get_name().rpartition(" : ")[2],
            "action": fields.get("action"),
            "args": fields.get("args"),
            "delegate_to": fields.get("delegate_to"),
            "run_once": bool(fields.get("run_once")),
            "message": str(result.result.get("msg", ""))[:MOST],
            "outcome": outcome,
        }
        with open(os.environ["RECORDED"], "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(json.dumps(line, default=str) + "\n")

    v2_runner_on_ok = partialmethod(_keep, outcome="ok")
    v2_runner_on_failed = partialmethod(_keep, outcome="failed")
    v2_runner_on_unreachable = partialmethod(_keep, outcome="unreachable")
    v2_runner_on_skipped = partialmethod(_keep, outcome="skipped")
    v2_runner_item_on_ok = partialmethod(_keep, outcome="item ok")
    v2_runner_item_on_failed = partialmethod(_keep, outcome="item failed")
