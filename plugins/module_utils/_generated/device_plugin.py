# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/device_plugin.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {
            "type": "str",
            "choices": ["absent", "installed", "started", "stopped"],
            "default": "started",
        },
        "wheelhouse": {"type": "path"},
        "index_url": {"type": "str", "no_log": True},
        "python": {"type": "path"},
        "install_python": {"type": "bool", "default": False},
        "config": {"type": "dict"},
        "configs": {"type": "dict", "default": {}},
        "labels": {
            "type": "dict",
            "options": {
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
            },
        },
        "wait_timeout": {"type": "int", "default": 60},
        "lock_timeout": {"type": "int", "default": 300},
        "dra": {
            "type": "dict",
            "apply_defaults": True,
            "options": {
                "devices": {"type": "list", "elements": "str", "default": []},
                "enforcement": {
                    "type": "str",
                    "choices": ["mps", "cgroup", "hami-core", "none"],
                    "default": "mps",
                },
                "split_count": {"type": "int", "default": 10},
                "memory_scaling": {"type": "float", "default": 1.0},
                "oversubscribe": {
                    "type": "str",
                    "choices": ["refuse", "best-effort"],
                    "default": "refuse",
                },
                "publish": {"type": "str", "choices": ["all", "gpu", "share"], "default": "all"},
                "kubeconfig": {"type": "str", "default": ""},
                "node_name": {"type": "str", "default": ""},
                "hami_core_library": {"type": "path", "default": ""},
                "hami_core_sha256": {"type": "str", "default": "", "no_log": False},
            },
        },
        "allocation": {
            "type": "str",
            "choices": ["device_plugin", "dra", "both"],
            "default": "device_plugin",
        },
        "package": {"type": "path"},
        "prefix": {"type": "path", "default": "/opt/gpu-node"},
        "require_kubelet": {"type": "bool", "default": False},
        "keep_releases": {"type": "int", "default": 2},
        "digest": {"type": "str"},
        "units": {"type": "dict"},
        "payload": {"type": "path"},
    },
}
