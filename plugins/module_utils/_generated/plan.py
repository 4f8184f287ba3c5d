# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/common.yml."""

from __future__ import annotations

import typing as t

from .preflight import SPEC as PREFLIGHT

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        **PREFLIGHT["argument_spec"],
        "daemon": {
            "type": "dict",
            "options": {"digest": {"type": "str", "default": ""}, "units": {"type": "dict"}},
        },
        "parts": {
            "type": "list",
            "elements": "str",
            "choices": [
                "environment",
                "host",
                "driver",
                "toolkit",
                "runtime",
                "mig",
                "settings",
                "cdi",
                "device_plugin",
                "dcgm",
                "accept",
            ],
        },
        "validate": {"type": "bool", "default": False},
        "status": {"type": "bool", "default": False},
    },
}
