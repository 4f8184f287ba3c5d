# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/common.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "variables": {"type": "dict", "default": {}},
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
            "default": [
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
        },
        "cloud_init_timeout": {"type": "int", "default": 0},
        "refused": {"type": "list", "elements": "dict", "default": []},
    },
}
