# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/cdi.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "path": {"type": "path", "default": "/etc/cdi/nvidia.yaml"},
        "hooks": {"type": "str", "choices": ["auto", "never"], "default": "auto"},
        "library_folders": {"type": "list", "elements": "path", "default": []},
        "driver_root": {"type": "path", "default": "/"},
        "generator": {"type": "str", "choices": ["nvml", "nvidia-ctk"], "default": "nvml"},
        "capabilities": {
            "type": "list",
            "elements": "str",
            "choices": [
                "compute",
                "utility",
                "video",
                "graphics",
                "display",
                "ngx",
                "compat32",
                "all",
            ],
            "default": ["compute", "utility", "video"],
        },
        "boot": {"type": "bool", "default": True},
        "compare": {"type": "bool", "default": False},
    },
}
