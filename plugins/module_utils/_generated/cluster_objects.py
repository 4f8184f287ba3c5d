# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/common.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "objects": {"type": "list", "elements": "dict", "required": True},
        "kubeconfig": {"type": "str", "default": ""},
        "context": {"type": "str", "default": ""},
        "field_manager": {"type": "str", "default": "gpu-node"},
        "force": {"type": "bool", "default": False},
        "label": {"type": "str", "default": ""},
        "prune": {"type": "list", "elements": "str", "default": []},
    },
}
