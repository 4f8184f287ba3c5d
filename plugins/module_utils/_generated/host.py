# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/host.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "iommu": {"type": "str", "choices": ["unmanaged", "pt", "off"], "default": "unmanaged"},
        "acs": {"type": "str", "choices": ["unmanaged", "disabled"], "default": "unmanaged"},
        "hugepages": {"type": "dict", "default": {}},
        "governor": {
            "type": "str",
            "choices": ["unmanaged", "performance"],
            "default": "unmanaged",
        },
        "numa_balancing": {
            "type": "str",
            "choices": ["unmanaged", "disabled"],
            "default": "unmanaged",
        },
        "memlock": {"type": "str", "default": "unmanaged"},
        "lock_timeout": {"type": "int", "default": 60},
    },
}
