# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ten thousand hostile inputs at each of the daemon's parsers: a clear error at once, and no growth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpu_plugin._shared._core.errors import NodeError
from gpu_plugin.cdi import files as cdi_state

from tests.support.hostile import Thrown, inputs

SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
    ],
    "containerEdits": {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "mounts": [{"hostPath": "/lib/a.so.1", "containerPath": "/lib/a.so.1", "options": ["ro"]}],
        "hooks": [
            {
                "hookName": "createContainer",
                "path": "/usr/bin/nvidia-cdi-hook",
                "args": ["nvidia-cdi-hook", "update-ldcache"],
            }
        ],
    },
}
SPECS = (
    json.dumps(SPEC),
    json.dumps(SPEC, indent=1),
    "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices:\n- {name: all, containerEdits: {env: [A=b]}}\n",
    "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices: [{name: x}]\n"
    "containerEdits:\n  hooks:\n  - {path: /x/nvidia-ctk, args: [a, b]}",
)


@pytest.mark.attack("hostile-configuration")
def test_hostile_cdi_specification_on_disk(memory: Path) -> None:
    path = memory / "nvidia.yaml"

    def look(text: str) -> None:
        path.write_bytes(text.encode(errors="surrogatepass"))
        if not cdi_state.content(path)["devices"]:
            raise NodeError("no devices")

    Thrown(look, NodeError).throw(inputs(SPECS))
