# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A claim's CDI specification, made of the node's and of what the enforcement adds."""

from __future__ import annotations

import pytest
from gpu_plugin._shared._base.dra.checkpoint import Device
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.dra.prepare.cdi import specification
from gpu_plugin.dra.values import Edits, Mount

NODE = {
    "cdiVersion": "0.3.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "GPU-0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
    "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}]},
}
SHARE = Device(request="gpu", pool="node", device="gpu-0-share", gpu="GPU-0", minor=0, share_id="s")


def test_a_mount_that_the_runtime_makes_has_its_type_and_its_version() -> None:
    mounts = (Mount("/lib.so", "/lib.so"), Mount("tmpfs", "/tmp/x", ("rw",), "tmpfs"))
    found = specification("uid", [SHARE], [NODE], {}, Edits({"A": "b"}, mounts))
    (device,) = found["devices"]
    assert device["name"] == "uid-gpu-0-share-s"
    edits = device["containerEdits"]
    assert edits["env"] == ["A=b"]
    assert [one.get("type") for one in edits["mounts"]] == [None, "tmpfs"]
    assert found["cdiVersion"] == "0.4.0"
    assert found["containerEdits"] == NODE["containerEdits"]


def test_a_gpu_that_nobody_describes_is_not_given() -> None:
    with pytest.raises(NodeError, match="GPU-0 can't be given to containers"):
        specification("uid", [SHARE], [], {}, Edits())
