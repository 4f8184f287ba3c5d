# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/validate.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "gpu_count": {"type": "int", "default": -1},
        "containers": {"type": "bool", "default": True},
        "cuda": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 15},
        "driver_version": {"type": "str", "default": ""},
        "driver_source": {"type": "str", "default": ""},
        "components": {
            "type": "list",
            "elements": "str",
            "choices": [
                "host",
                "driver",
                "runtime",
                "toolkit",
                "mig",
                "settings",
                "cdi",
                "device_plugin",
                "labels",
                "dcgm",
                "accept",
                "validate",
            ],
            "default": [],
        },
        "runtime": {"type": "str", "default": "auto"},
        "allocation": {
            "type": "str",
            "choices": ["", "device_plugin", "dra", "both"],
            "default": "",
        },
        "require_kubelet": {"type": "bool", "default": False},
        "change": {"type": "str", "default": ""},
        "set_aside_may_be_missing": {"type": "bool", "default": False},
        "fail": {"type": "bool", "default": True},
    },
}
