# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/mig.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "config": {"type": "raw"},
        "selected": {"type": "str", "default": ""},
        "on_busy": {"type": "str", "choices": ["fail", "skip", "wait"], "default": "fail"},
        "wait_timeout": {"type": "int", "default": 600},
        "reset": {"type": "str", "choices": ["never", "when_idle"], "default": "never"},
        "boot": {"type": "bool", "default": True},
        "by_label": {"type": "bool", "default": False},
        "lock_timeout": {"type": "int", "default": 60},
        "on_allocated": {"type": "str", "choices": ["refuse", "ignore"], "default": "refuse"},
        "stop_services": {"type": "list", "elements": "str", "default": []},
    },
}
