# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The options of gpu.node.nvidia_driver."""

from __future__ import annotations

import typing as t

from ..recorded import REPOSITORY_SPEC

RUNFILE_SPEC: t.Dict[str, t.Any] = {
    "type": "dict",
    "options": {
        "location": {"type": "str", "required": True},
        "sha256": {"type": "str", "required": True, "no_log": False},
    },
}
SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "version": {"type": "str", "default": ""},
        "kernel_modules": {
            "type": "str",
            "choices": ["auto", "open", "proprietary"],
            "default": "auto",
        },
        "components": {"type": "list", "elements": "str", "default": []},
        "source": {
            "type": "str",
            "choices": ["distribution", "repository", "runfile", "preinstalled"],
            "default": "distribution",
        },
        "repository": REPOSITORY_SPEC,
        "runfile": RUNFILE_SPEC,
        "hold": {"type": "bool", "default": True},
        "load": {"type": "bool", "default": True},
        "persistence": {"type": "bool", "default": True},
        "manage_sources": {"type": "bool", "default": True},
        "secure_boot": {"type": "str", "choices": ["refuse", "ignore"], "default": "refuse"},
        "reload": {"type": "str", "choices": ["never", "when_idle"], "default": "never"},
        "module_options": {"type": "dict", "default": {}},
        "lock_timeout": {"type": "int", "default": 300},
    },
}
