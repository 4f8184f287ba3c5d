# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/container_toolkit.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "version": {"type": "str", "default": ""},
        "parts": {"type": "str", "choices": ["all", "base"], "default": "all"},
        "hold": {"type": "bool", "default": True},
        "vendor_refresh": {"type": "bool", "default": False},
        "repository": {
            "type": "dict",
            "options": {
                "preset": {"type": "str"},
                "base_url": {"type": "str"},
                "url": {"type": "str"},
                "key": {"type": "str", "no_log": False},
                "key_fingerprints": {
                    "type": "list",
                    "elements": "str",
                    "default": [],
                    "no_log": False,
                },
                "suite": {"type": "str", "default": "/"},
                "components": {"type": "list", "elements": "str", "default": []},
                "signed_metadata": {"type": "bool"},
                "plain_http": {"type": "bool", "default": False},
                "signed_packages": {"type": "bool"},
            },
        },
        "lock_timeout": {"type": "int", "default": 300},
    },
}
