# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/common.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {
            "type": "str",
            "choices": ["cordoned", "drained", "uncordoned", "evicted", "held", "admitted"],
            "default": "drained",
        },
        "node": {"type": "str", "required": True},
        "kubeconfig": {"type": "str", "default": ""},
        "context": {"type": "str", "default": ""},
        "reason": {"type": "str", "default": "maintenance"},
        "failure": {"type": "str", "default": ""},
        "quarantine": {"type": "bool", "default": False},
        "patient": {"type": "bool", "default": False},
        "pods": {"type": "str", "choices": ["all", "gpu"], "default": "gpu"},
        "names": {"type": "list", "elements": "str", "default": []},
        "bare_pods": {"type": "str", "choices": ["refuse", "delete"], "default": "refuse"},
        "emptydir": {"type": "str", "choices": ["refuse", "delete"], "default": "refuse"},
        "grace_period": {"type": "int", "default": 300},
        "timeout": {"type": "int", "default": 360},
        "retries": {"type": "int", "default": 3},
        "wait_for_jobs": {"type": "int", "default": 0},
    },
}
