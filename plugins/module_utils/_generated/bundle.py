# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/bundle.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "verified"], "default": "present"},
        "path": {"type": "path", "required": True},
        "collection": {"type": "path", "required": True},
        "pythons": {
            "type": "list",
            "elements": "str",
            "default": ["3.10", "3.11", "3.12", "3.13", "3.14"],
        },
        "architectures": {"type": "list", "elements": "str", "default": ["x86_64"]},
        "webhook": {"type": "bool", "default": True},
        "images": {"type": "list", "elements": "str", "default": []},
        "driver_version": {"type": "str", "default": ""},
        "sha256": {"type": "str", "default": ""},
    },
}
