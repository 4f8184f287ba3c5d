# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/common.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "node": {"type": "str", "required": True},
        "kubeconfig": {"type": "str", "default": ""},
        "context": {"type": "str", "default": ""},
        "image": {"type": "str", "required": True},
        "command": {"type": "list", "elements": "str", "default": []},
        "namespace": {"type": "str", "default": "default"},
        "timeout": {"type": "int", "default": 120},
        "fail": {"type": "bool", "default": True},
    },
}
