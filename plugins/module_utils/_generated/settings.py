# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/settings.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "rules": {"type": "list", "elements": "dict", "default": []},
        "boot": {"type": "bool", "default": True},
        "lock_timeout": {"type": "int", "default": 60},
        "releasing": {"type": "list", "elements": "str", "default": []},
    },
}
