# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/nvidia_driver.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "source": {
            "type": "str",
            "choices": ["auto", "distribution", "repository", "runfile", "preinstalled"],
            "default": "auto",
        },
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
            },
        },
        "runfile": {
            "type": "dict",
            "options": {
                "location": {"type": "str", "required": True},
                "sha256": {"type": "str", "required": True, "no_log": False},
            },
        },
        "version": {"type": "str", "default": ""},
        "kernel_modules": {
            "type": "str",
            "choices": ["auto", "open", "proprietary"],
            "default": "auto",
        },
        "precompiled": {"type": "str", "choices": ["auto", "require", "never"], "default": "auto"},
        "prerequisites": {"type": "str", "choices": ["refuse", "install"], "default": "refuse"},
        "components": {"type": "list", "elements": "str", "default": []},
        "adopt": {"type": "bool", "default": False},
        "hold": {"type": "bool", "default": True},
        "hold_kernel": {"type": "bool", "default": False},
        "update": {"type": "bool", "default": False},
        "load": {"type": "bool", "default": True},
        "reload": {"type": "str", "choices": ["never", "when_idle"], "default": "never"},
        "on_busy": {"type": "str", "choices": ["fail", "wait", "proceed"], "default": "fail"},
        "wait_timeout": {"type": "int", "default": 600},
        "persistence": {"type": "bool", "default": True},
        "manage_sources": {"type": "bool", "default": True},
        "secure_boot": {"type": "str", "choices": ["refuse", "ignore"], "default": "refuse"},
        "module_options": {"type": "dict", "default": {}},
        "lock_timeout": {"type": "int", "default": 300},
        "releases": {"type": "raw", "default": True},
        "gpu_count": {"type": "int", "default": -1},
        "on_allocated": {"type": "str", "choices": ["refuse", "ignore"], "default": "refuse"},
        "stop_services": {"type": "list", "elements": "str", "default": []},
    },
}
