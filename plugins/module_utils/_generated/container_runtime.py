# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Ansible checks of options, written by make options from options/container_runtime.yml."""

from __future__ import annotations

import typing as t

SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "name": {
            "type": "str",
            "choices": [
                "auto",
                "containerd",
                "docker",
                "cri-o",
                "podman",
                "k3s",
                "rke2",
                "k0s",
                "microk8s",
            ],
            "default": "auto",
            "aliases": ["runtime"],
            "deprecated_aliases": [
                {"name": "runtime", "version": "1.0.0", "collection_name": "gpu.node"},
            ],
        },
        "mode": {
            "type": "str",
            "choices": ["cdi", "runtime_class", "default_runtime"],
            "default": "cdi",
        },
        "handler": {"type": "str", "default": "nvidia"},
        "handler_path": {
            "type": "path",
            "default": "/usr/bin/nvidia-container-runtime",
            "aliases": ["runtime_path"],
            "deprecated_aliases": [
                {"name": "runtime_path", "version": "1.0.0", "collection_name": "gpu.node"},
            ],
        },
        "config_path": {"type": "path"},
        "spec_dirs": {"type": "list", "elements": "path", "default": ["/etc/cdi", "/var/run/cdi"]},
        "restart": {
            "type": "str",
            "choices": ["never", "when_idle", "always"],
            "default": "when_idle",
        },
        "backup": {"type": "bool", "default": False},
        "restart_now": {"type": "list", "elements": "str", "default": []},
    },
}
