# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the plugin hands out of another's specification is nothing that any user of the node could have made."""

from __future__ import annotations

import json

import pytest
from gpu_plugin.cdi import specification as cdi

LIBRARY = {"hostPath": "/usr/lib/libcuda.so.1", "containerPath": "/usr/lib/libcuda.so.1"}
PIPES = {"hostPath": "/tmp/nvidia-mps", "containerPath": "/tmp//nvidia-mps/"}
ELSEWHERE = {"hostPath": "/srv/driver/tmp/nvidia-mps", "containerPath": "/tmp/nvidia-mps"}


@pytest.mark.attack("world-writable-folder-mounted")
def test_shares_meet_no_other_pipes_in_a_container() -> None:
    node = {"deviceNodes": [{"path": "/dev/nvidia0"}]}
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "0", "containerEdits": {**node, "mounts": [ELSEWHERE]}}],
        "containerEdits": {"mounts": [PIPES, LIBRARY]},
    }
    derived = cdi.derive(cdi.read(json.dumps(spec)))
    assert derived["containerEdits"] == {"mounts": [LIBRARY]}
    assert derived["devices"] == [{"name": "0", "containerEdits": node}]


@pytest.mark.attack("world-writable-folder-mounted")
def test_what_can_not_be_a_mount_is_passed_over() -> None:
    spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": []}
    for edits in (None, [], {"mounts": None}, {"mounts": [None, 3, {"hostPath": 5}]}):
        derived = cdi.derive({**spec, "containerEdits": edits})
        assert derived["containerEdits"] == edits
