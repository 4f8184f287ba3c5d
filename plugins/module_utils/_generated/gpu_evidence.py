# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/evidence.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "gpus": {"type": "list", "elements": "str", "default": []},
        "stage": {"type": "str", "choices": ["before", "after", "rma"], "default": "before"},
        "case": {"type": "str", "default": ""},
        "force": {"type": "bool", "default": False},
        "path": {"type": "path", "default": "/var/lib/gpu-node/evidence"},
        "keep": {"type": "int", "default": 20},
        "bug_report": {"type": "str", "choices": ["never", "safe", "full"], "default": "safe"},
        "bug_report_timeout": {"type": "int", "default": 600},
        "kernel_log_since": {"type": "str", "default": ""},
        "dcgm": {"type": "bool", "default": True},
    },
}
