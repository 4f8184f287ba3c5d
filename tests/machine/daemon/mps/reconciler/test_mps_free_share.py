# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin status`` names a free share, which gpu.node.validate tries as a client of MPS."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.fakes.mps.mps_sharing import GPU, Shared

MakeShared = Callable[..., Shared]


def test_status_names_a_free_share_as_a_pod_gets_it(make_shared: MakeShared) -> None:
    shared = make_shared(gpus=1)
    shared.start("{resources: [{name: gpu, replicas: 2}]}")
    shared.wait(GPU, 2)
    node, (uuid,) = shared.node, shared.uuids()

    def free() -> list[dict[str, Any]]:
        args = ("--status-file", node.status_file, "--pod-resources", node.pods)
        process = node.cli("status", "--json", *args, "--mps-root", shared.root)
        shares: list[dict[str, Any]] = json.loads(process.stdout)["mps_shares"]
        return shares

    (share,) = free()
    pod, _other = (node.admit(name, gpu=1) for name in ("one", "two"))
    assert {**share["env"], "NVIDIA_VISIBLE_DEVICES": uuid} == pod["envs"]
    keys = {"inside": "container", "outside": "host", "read_only": "read_only"}
    mounts = [{keys[key]: value for key, value in mount.items()} for mount in share["mounts"]]
    assert mounts == pod["mounts"]
    assert free() == []
