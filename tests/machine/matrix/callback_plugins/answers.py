# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Write each module's whole answer as a line of JSON: {host, task, answer}, into the file in MATRIX_ANSWERS."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: answers
type: notification
short_description: Write each module's answer
description: Write each module's answer.
"""


class CallbackModule(CallbackBase):
    """Keep what modules answer."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "answers"

    def _keep(self, result: Any, **_told: Any) -> None:
        line = {
            "host": result._host.get_name(),
            "task": result._task.get_name(),
            "answer": result._result,
        }
        with open(os.environ["MATRIX_ANSWERS"], "a") as stream:
            stream.write(json.dumps(line, default=str) + "\n")

    v2_runner_on_ok = v2_runner_on_failed = v2_runner_on_unreachable = _keep
