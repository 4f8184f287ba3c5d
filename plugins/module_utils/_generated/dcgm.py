# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/dcgm.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "version": {"type": "str", "default": ""},
        "cuda": {
            "type": "str",
            "choices": ["auto", "none", "11", "12", "13", "all"],
            "default": "auto",
        },
        "proprietary": {"type": "bool", "default": True},
        "hold": {"type": "bool", "default": True},
        "exporter": {
            "type": "dict",
            "options": {
                "location": {"type": "str"},
                "sha256": {"type": "str", "no_log": False},
                "package": {"type": "str"},
                "version": {"type": "str"},
                "address": {"type": "str", "default": "127.0.0.1:9400"},
                "kubernetes": {"type": "bool", "default": True},
                "gpu_id_type": {"type": "str", "choices": ["uid", "device-name"], "default": "uid"},
                "shared": {"type": "bool", "default": True},
                "resources": {"type": "list", "elements": "str", "default": []},
                "collectors": {"type": "str", "default": ""},
                "interval": {"type": "int", "default": 30},
            },
        },
        "lock_timeout": {"type": "int", "default": 300},
    },
}
