# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/repair.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {
            "type": "str",
            "choices": [
                "observed",
                "planned",
                "evidence",
                "fenced",
                "stopped",
                "reset",
                "restored",
                "proved",
                "released",
                "failed",
            ],
            "default": "observed",
        },
        "gpus": {"type": "list", "elements": "str", "default": []},
        "holder": {"type": "str", "default": ""},
        "instead_of": {"type": "str", "default": ""},
        "give_back": {"type": "bool", "default": False},
        "action": {"type": "str", "choices": ["", "reset", "reset_all", "reboot"], "default": ""},
        "result": {"type": "str", "default": ""},
        "refused": {"type": "bool", "default": False},
        "evidence": {"type": "str", "default": ""},
        "stopped": {"type": "list", "elements": "str", "default": []},
        "reboot": {"type": "str", "choices": ["never", "when_needed"], "default": "never"},
        "window": {"type": "int", "default": 86400},
        "xids": {"type": "raw", "default": True},
        "gpu_count": {"type": "int", "default": -1},
        "fences": {"type": "bool", "default": True},
    },
}
