# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/quarantine.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "gpus": {"type": "list", "elements": "str", "default": []},
        "node": {"type": "bool", "default": False},
        "reason": {"type": "str", "default": ""},
        "ticket": {"type": "str", "default": ""},
        "by": {"type": "str", "choices": ["operator", "repair"], "default": "operator"},
    },
}
