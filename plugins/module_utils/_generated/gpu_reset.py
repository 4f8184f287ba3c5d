# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/gpu_reset.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "gpus": {"type": "list", "elements": "str", "required": True},
        "reset": {"type": "str", "choices": ["when_needed", "always"], "default": "when_needed"},
        "together": {"type": "bool", "default": False},
        "on_busy": {"type": "str", "choices": ["fail", "wait"], "default": "fail"},
        "wait_timeout": {"type": "int", "default": 600},
        "on_allocated": {"type": "str", "choices": ["refuse", "ignore"], "default": "refuse"},
        "stop_services": {"type": "list", "elements": "str", "default": []},
        "lock_timeout": {"type": "int", "default": 60},
    },
}
