# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/accept.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "gpus": {"type": "list", "elements": "str", "default": ["all"]},
        "test": {
            "type": "str",
            "choices": ["when_needed", "always", "never"],
            "default": "when_needed",
        },
        "duration": {"type": "int", "default": 10},
        "level": {"type": "str", "choices": ["quick", "standard"], "default": "quick"},
        "tools": {"type": "dict", "default": {}},
        "dcgm_level": {"type": "int", "choices": [2, 3], "default": 2},
        "valid_for": {"type": "int", "default": 0},
        "floors": {"type": "dict", "default": {}},
        "fail": {"type": "bool", "default": True},
        "on_busy": {"type": "str", "choices": ["fail", "skip", "wait"], "default": "fail"},
        "wait_timeout": {"type": "int", "default": 600},
        "on_allocated": {"type": "str", "choices": ["refuse", "ignore"], "default": "refuse"},
        "stop_services": {"type": "list", "elements": "str", "default": []},
        "lock_timeout": {"type": "int", "default": 60},
        "gate": {"type": "bool"},
        "scope": {"type": "str", "choices": ["gpu", "node"], "default": "gpu"},
        "override": {"type": "str", "default": ""},
    },
}
