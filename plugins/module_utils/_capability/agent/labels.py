# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The options of node labels, which gpu.node.device_plugin has in one."""

from __future__ import annotations

import typing as t

OPTIONS: t.Dict[str, t.Any] = {
    "output": {
        "type": "str",
        "choices": ["api", "file", "node-feature", "off"],
        "default": "api",
    },
    "kubeconfig": {"type": "str", "default": ""},
    "node_name": {"type": "str", "default": ""},
    "namespace": {"type": "str", "default": ""},
    "extra": {"type": "dict", "default": {}},
    "default_config": {"type": "str", "default": ""},
    "events": {"type": "bool", "default": True},
    "condition": {"type": "bool", "default": False},
    "mig_by_label": {"type": "bool", "default": False},
}
